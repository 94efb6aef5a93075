// SPDX-License-Identifier: Apache-2.0
//
// Callout for hosts in C, and in any language that calls C. The interface has two levels:
//
// - a host with a PJRT binding of its own uses callout_attach, callbacks, and a binding scope around its compilation;
// - a host without a PJRT binding uses callout_plugin_load, clients, programs, executables and arrays.
//
// These rules hold for all functions. Functions that can fail return a callout_status, which is null for success and
// which the caller destroys. Outputs are written on success only. A null pointer where none is allowed is an
// INVALID_ARGUMENT that names the parameter. Each handle is destroyed by the function with its name, which accepts
// null; each handle keeps the objects alive that it was made from, so the order does not matter. Strings are UTF-8 and
// NUL-terminated. Functions copy their arguments unless the comment says otherwise. No function needs or takes Python's
// GIL; no function throws. Functions are thread-safe unless the comment says otherwise, as long as no handle is
// destroyed while another thread is using it.
//
// Option structs begin with `struct_size`: sizeof of the struct that the caller was compiled with. Zeros in all other
// fields are the defaults, and a null pointer to options means all zeros. A library refuses a nonzero field that it
// does not know.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "callout/abi.h"

#ifdef __cplusplus
/// The C++ spelling of the rule that no function throws.
#define CALLOUT_C_NOEXCEPT noexcept
extern "C" {
#else
#define CALLOUT_C_NOEXCEPT
#endif

/// Marks a function that the library exports.
#define CALLOUT_C_EXPORT __attribute__((visibility("default")))
/// The return type of a function that can fail. An ignored status would leak.
#define CALLOUT_C_STATUS __attribute__((visibility("default"), warn_unused_result)) callout_status*

/// The version of this interface. Additions increase the number; no version removes anything.
#define CALLOUT_C_API_VERSION 1
/// Returns the version of the library that is loaded.
CALLOUT_C_EXPORT uint32_t callout_c_api_version(void) CALLOUT_C_NOEXCEPT;

/// The reason of a failure. Null is success in all functions.
typedef struct callout_status callout_status;

/// Returns a canonical code, such as 0 ok, 3 invalid argument, 4 deadline exceeded, 5 not found, 13 internal.
CALLOUT_C_EXPORT int32_t callout_status_code(const callout_status* status) CALLOUT_C_NOEXCEPT;
/// Returns the message; "" for success. Borrowed: valid until the status is destroyed.
CALLOUT_C_EXPORT const char* callout_status_message(const callout_status* status) CALLOUT_C_NOEXCEPT;
/// Destroys the status. Takes ownership. Null has no effect.
CALLOUT_C_EXPORT void callout_status_destroy(callout_status* status) CALLOUT_C_NOEXCEPT;

/// A callback under the name by which programs ask for it. Executables keep the callbacks that they use, so a callback
/// may be destroyed after the compilation, and may be given to several compilations.
typedef struct callout_callback callout_callback;

/// Makes a callback of a closure. Takes ownership of the closure's context on success; `destroy` is then called once,
/// on any thread, when the handle and all executables that use the callback are gone. Programs call the closure on
/// their own threads, several at once; a thread of Callout's delivers its taps, in order for each device.
CALLOUT_C_STATUS callout_callback_from_closure(const char* name, const callout_closure* closure,
                                               callout_callback** out) CALLOUT_C_NOEXCEPT;
/// Makes a callback of a function of a shared library, "path/lib.so:symbol". The library stays loaded.
CALLOUT_C_STATUS callout_callback_from_library(const char* name, const char* library_and_symbol,
                                               callout_callback** out) CALLOUT_C_NOEXCEPT;

/// The kinds of sinks that have numbers; callout_callback_from_serialized makes all kinds, with their options.
enum callout_sink_kind {
  CALLOUT_SINK_NULL = 0,
  CALLOUT_SINK_PRINT = 1,        ///< A line per record on standard output, in the format `path` if that is not null.
  CALLOUT_SINK_JSON_LINES = 2,   ///< A JSON object per record in the file `path`, which is overwritten.
  CALLOUT_SINK_CSV = 3,          ///< A line per record in the file `path`, which is overwritten.
  CALLOUT_SINK_TENSORBOARD = 4,  ///< An event per record in a new event file in the folder `path`.
  CALLOUT_SINK_ARROW = 5,        ///< A row per record of an Arrow IPC stream in the file `path`, which is overwritten.
  CALLOUT_SINK_NPY = 6,          ///< A row per record in the .npy file `path`, or in one per `{leaf}`; overwritten.
  CALLOUT_SINK_ZARR = 7,         ///< A row per record and an array per leaf in the Zarr store `path`, which is emptied.
};

/// Makes a callback of a sink. `path` may be null where the kind has none.
CALLOUT_C_STATUS callout_callback_from_sink(const char* name, uint32_t kind, const char* path,
                                            callout_callback** out) CALLOUT_C_NOEXCEPT;

/// Makes a callback of the "kind:payload" that a C++ host's Serialize returned: a sink with its options ("print",
/// "null", "csv,append:PATH", ...: see docs/sinks.md), "library:PATH:SYMBOL", or a kind for which the process has a
/// maker. NOT_FOUND, with the known kinds, for another kind.
CALLOUT_C_STATUS callout_callback_from_serialized(const char* name, const char* serialized,
                                                  callout_callback** out) CALLOUT_C_NOEXCEPT;

/// Returns the callback's name; "" for null. Borrowed: valid until the callback is destroyed.
CALLOUT_C_EXPORT const char* callout_callback_name(const callout_callback* callback) CALLOUT_C_NOEXCEPT;
/// Destroys the callback. Takes ownership. Null has no effect. Executables keep the callbacks that they use.
CALLOUT_C_EXPORT void callout_callback_destroy(callout_callback* callback) CALLOUT_C_NOEXCEPT;

/// Blocks until every tap that programs made before is delivered. `timeout_seconds` < 0 waits for ever. Errors: the
/// error of the last tap that failed since the last call; DEADLINE_EXCEEDED with what is outstanding;
/// FAILED_PRECONDITION in a process that was forked from one that used Callout. Must not be called from a callback.
CALLOUT_C_STATUS callout_barrier_wait(double timeout_seconds) CALLOUT_C_NOEXCEPT;

// Functions for hosts with a PJRT binding of their own.

/// Registers Callout's FFI targets with the runtime of a PJRT plugin, which the host has loaded and initialised.
/// `pjrt_api` is the `const PJRT_Api*` that the plugin's GetPjrtApi returned; the plugin stays loaded from then on. One
/// call per plugin is enough; later calls succeed and do nothing. Errors: FAILED_PRECONDITION for another major version
/// of PJRT, or for a plugin without the FFI extension; else the plugin's own.
CALLOUT_C_STATUS callout_attach(const void* pjrt_api) CALLOUT_C_NOEXCEPT;

/// Bindings that hold for programs that this thread compiles, or loads from a cache, between begin and end.
typedef struct callout_binding_scope callout_binding_scope;

/// Begins a scope: programs that this thread compiles until its end look up names among `callbacks` first, and then in
/// the process's registry. Scopes may be nested, and then only the innermost counts. The scope keeps the callbacks.
/// Errors: INVALID_ARGUMENT for two callbacks of one name.
CALLOUT_C_STATUS callout_binding_scope_begin(callout_callback* const* callbacks, size_t num_callbacks,
                                             callout_binding_scope** out) CALLOUT_C_NOEXCEPT;
/// Returns how many different names programs have asked for since the scope began, even if a compilation failed. Not
/// thread-safe: only the scope's thread may call it.
CALLOUT_C_EXPORT size_t callout_binding_scope_num_names(const callout_binding_scope* scope) CALLOUT_C_NOEXCEPT;
/// Returns a name that a program asked for; null if there is no such name. Borrowed: valid until the next compilation,
/// or until the end of the scope.
CALLOUT_C_EXPORT const char* callout_binding_scope_name(const callout_binding_scope* scope,
                                                        size_t index) CALLOUT_C_NOEXCEPT;
/// Destroys the scope. Null has no effect. FAILED_PRECONDITION, with no effect, if the scope is not the innermost scope
/// of this thread: a runtime that moves its own threads between those of the system must pin them while a scope is
/// open.
CALLOUT_C_STATUS callout_binding_scope_end(callout_binding_scope* scope) CALLOUT_C_NOEXCEPT;

// Functions for hosts without a PJRT binding.

/// A PJRT plugin: XLA as a shared library. A plugin is loaded once per process and path, and never unloaded.
typedef struct callout_plugin callout_plugin;

/// Loads the plugin at `path` and attaches Callout's targets. If `path` is null or "", loads the plugin that the
/// environment variable CALLOUT_PJRT_PLUGIN names, or else the CPU plugin of the active Python environment. Errors:
/// NOT_FOUND with the paths that were tried; those of callout_attach.
CALLOUT_C_STATUS callout_plugin_load(const char* path, callout_plugin** out) CALLOUT_C_NOEXCEPT;
/// Returns the plugin's path; "" for null. Borrowed: valid until the plugin is destroyed.
CALLOUT_C_EXPORT const char* callout_plugin_path(const callout_plugin* plugin) CALLOUT_C_NOEXCEPT;
/// Writes the version of the PJRT C API that the plugin has. Either output may be null.
CALLOUT_C_EXPORT void callout_plugin_version(const callout_plugin* plugin, int32_t* major,
                                             int32_t* minor) CALLOUT_C_NOEXCEPT;
/// Destroys the handle. Takes ownership. Null has no effect. The plugin's library stays loaded.
CALLOUT_C_EXPORT void callout_plugin_destroy(callout_plugin* plugin) CALLOUT_C_NOEXCEPT;

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;
/// An XLA_FFI_Handler of xla/ffi/api/c_api.h.
typedef struct XLA_FFI_Error* (*callout_ffi_function)(struct XLA_FFI_CallFrame* frame);

/// A handler of custom calls. Its functions stay until the process ends; plugins call them on any thread.
typedef struct callout_ffi_handler {
  size_t struct_size;                ///< sizeof(callout_ffi_handler).
  const char* name;                  ///< The target name in stablehlo.custom_call.
  const char* platform;              ///< Null means "cpu".
  callout_ffi_function execute;      ///< The handler of the execute stage.
  callout_ffi_function instantiate;  ///< Null if the handler has no such stage.
  callout_ffi_function prepare;      ///< Null if the handler has no such stage.
  callout_ffi_function initialize;   ///< Null if the handler has no such stage.
  uint32_t traits;                   ///< XLA_FFI_HANDLER_TRAITS_*.
} callout_ffi_handler;

/// Registers a handler for programs that are compiled from now on. The handlers of LAPACK (lapack_*_ffi) need no
/// registration. Errors: INVALID_ARGUMENT without a name or `execute`; those of the runtime, such as another handler of
/// that name.
CALLOUT_C_STATUS callout_plugin_register_handler(const callout_plugin* plugin,
                                                 const callout_ffi_handler* handler) CALLOUT_C_NOEXCEPT;
/// Finds the function at "path/lib.so:symbol", whose library stays loaded. Errors: NOT_FOUND with what was attempted.
CALLOUT_C_STATUS callout_find_ffi_function(const char* library_and_symbol,
                                           callout_ffi_function* out) CALLOUT_C_NOEXCEPT;

/// The kinds of option values, each with the member of callout_option that holds it.
enum callout_option_kind {
  CALLOUT_OPTION_STRING = 1,    ///< `text`
  CALLOUT_OPTION_INTEGER = 2,   ///< `integer`
  CALLOUT_OPTION_INTEGERS = 3,  ///< `integers`, `num_integers` of them
  CALLOUT_OPTION_FLOAT = 4,     ///< `real`
  CALLOUT_OPTION_BOOL = 5,      ///< `integer`, 0 or 1
};

/// An option that the plugin knows. Callers pass arrays of options, so the struct can never grow.
typedef struct callout_option {
  const char* name;         ///< Name of the option in the plugin or in XLA.
  uint32_t kind;            ///< callout_option_kind
  uint32_t reserved;        ///< Zero.
  int64_t integer;          ///< Value of CALLOUT_OPTION_INTEGER and CALLOUT_OPTION_BOOL.
  double real;              ///< Value of CALLOUT_OPTION_FLOAT.
  const char* text;         ///< Value of CALLOUT_OPTION_STRING.
  const int64_t* integers;  ///< Values of CALLOUT_OPTION_INTEGERS.
  size_t num_integers;      ///< Number of `integers`.
} callout_option;

/// Options of a client. All zeros are the defaults.
typedef struct callout_client_options {
  size_t struct_size;            ///< sizeof(callout_client_options).
  const callout_option* values;  ///< The CPU plugin knows "cpu_device_count", an integer.
  size_t num_values;             ///< Number of `values`.
  /// XLA:CPU runs one program at a time on a device, so a callback that blocks would stop the device. This field is the
  /// number of programs with calls that may run at once on one device, on threads of their own. 0: 32. -1: one program
  /// at a time, like all others on the device.
  int32_t concurrent_runs;
  uint32_t reserved;  ///< Zero.
} callout_client_options;

/// A plugin at work. The last handle that was made with a client destroys it and waits for running programs.
typedef struct callout_client callout_client;

/// Creates a client. `options` may be null.
CALLOUT_C_STATUS callout_client_create(const callout_plugin* plugin, const callout_client_options* options,
                                       callout_client** out) CALLOUT_C_NOEXCEPT;
/// Returns "cpu", "cuda", ...; "" for null. Borrowed: valid until the client is destroyed.
CALLOUT_C_EXPORT const char* callout_client_platform(const callout_client* client) CALLOUT_C_NOEXCEPT;
/// Returns the number of devices that this process may use. 0 for null.
CALLOUT_C_EXPORT size_t callout_client_num_devices(const callout_client* client) CALLOUT_C_NOEXCEPT;

/// The description of a device.
typedef struct callout_device {
  size_t struct_size;  ///< sizeof(callout_device), which the caller sets.
  int32_t id;          ///< The device's number among all devices of all processes.
  int32_t ordinal;   ///< The device's number among those of its kind on this host; callbacks get it as device_ordinal.
  const char* kind;  ///< The model. Borrowed: valid until the client is destroyed.
} callout_device;

/// Fills `out`, whose struct_size the caller has set. OUT_OF_RANGE if there is no such device.
CALLOUT_C_STATUS callout_client_device(const callout_client* client, size_t index,
                                       callout_device* out) CALLOUT_C_NOEXCEPT;
/// Returns how many memories the device can use. 0 for null, if there is no such device, and if the plugin cannot list
/// memories.
CALLOUT_C_EXPORT size_t callout_client_num_memories(const callout_client* client, size_t device) CALLOUT_C_NOEXCEPT;
/// Returns "device", "pinned_host", ...; null if there is no such memory. Borrowed: valid until the client is
/// destroyed.
CALLOUT_C_EXPORT const char* callout_client_memory_kind(const callout_client* client, size_t device,
                                                        size_t index) CALLOUT_C_NOEXCEPT;
/// Destroys the handle. Takes ownership. Null has no effect. Handles that were made with the client keep it alive.
CALLOUT_C_EXPORT void callout_client_destroy(callout_client* client) CALLOUT_C_NOEXCEPT;

/// A StableHLO program: MLIR text, MLIR bytecode, a portable artifact, or a file of jax.export's Exported.serialize.
/// INVALID_ARGUMENT for any other contents.
typedef struct callout_program callout_program;

/// Reads a program from a file. Errors: NOT_FOUND and PERMISSION_DENIED with the path.
CALLOUT_C_STATUS callout_program_from_file(const char* path, callout_program** out) CALLOUT_C_NOEXCEPT;
/// Copies a program from memory.
CALLOUT_C_STATUS callout_program_from_bytes(const void* data, size_t size, callout_program** out) CALLOUT_C_NOEXCEPT;
/// Destroys the program. Takes ownership. Null has no effect.
CALLOUT_C_EXPORT void callout_program_destroy(callout_program* program) CALLOUT_C_NOEXCEPT;

/// The values of callout_compile_options::embedded_code. The compilation of a program whose code is refused returns
/// FAILED_PRECONDITION. Loading code runs its initialisers.
enum callout_embedded_code {
  CALLOUT_EMBEDDED_CODE_BY_ENVIRONMENT = 0,  ///< CALLOUT_EMBEDDED_CODE of the environment decides; allowed if unset.
  CALLOUT_EMBEDDED_CODE_ALLOWED = 1,
  CALLOUT_EMBEDDED_CODE_REFUSED = 2,
};

/// Options of a compilation. All zeros are the defaults.
typedef struct callout_compile_options {
  size_t struct_size;                  ///< sizeof(callout_compile_options).
  callout_callback* const* callbacks;  ///< Callbacks to bind by their names, before those of the process's registry.
  size_t num_callbacks;                ///< Number of `callbacks`.
  int32_t num_replicas;                ///< 0 means 1.
  int32_t num_partitions;              ///< 0: as many as the program was exported for, or 1.
  const int32_t* device_assignment;    ///< Ids of the devices, replica by replica. Null: the first devices.
  size_t num_assigned;                 ///< num_replicas * num_partitions, or 0.
  const callout_option* xla_options;   ///< XLA's debug options for this program, by their names without dashes.
  size_t num_xla_options;              ///< Number of `xla_options`.
  /// A folder of compiled programs, as a cache: a program that is in the folder is loaded, another one is added. The
  /// keys distinguish programs, options, plugins and machines. A missing folder is made with mode 0700. Null: no cache.
  const char* cache_directory;
  /// Whether native code that the program carries may be loaded into this process: an enum callout_embedded_code.
  int32_t embedded_code;
} callout_compile_options;

/// A compiled program with its callbacks.
typedef struct callout_executable callout_executable;

/// Compiles a program. `options` may be null. Errors: INVALID_ARGUMENT for two callbacks of one name and for impossible
/// numbers of devices; NOT_FOUND for a name without a binding, with the names that the program needs if it lists them;
/// PERMISSION_DENIED for a cache to which others may write; else the plugin's own.
CALLOUT_C_STATUS callout_compile(const callout_client* client, const callout_program* program,
                                 const callout_compile_options* options, callout_executable** out) CALLOUT_C_NOEXCEPT;

/// Bytes that a function returned.
typedef struct callout_bytes callout_bytes;
/// Returns the bytes; null for null. Borrowed: valid until the bytes are destroyed.
CALLOUT_C_EXPORT const void* callout_bytes_data(const callout_bytes* bytes) CALLOUT_C_NOEXCEPT;
/// Returns the number of bytes. 0 for null.
CALLOUT_C_EXPORT size_t callout_bytes_size(const callout_bytes* bytes) CALLOUT_C_NOEXCEPT;
/// Destroys the bytes. Takes ownership. Null has no effect.
CALLOUT_C_EXPORT void callout_bytes_destroy(callout_bytes* bytes) CALLOUT_C_NOEXCEPT;

/// Returns bytes from which callout_executable_load makes the executable again, even in another process. The bytes name
/// callbacks and do not contain them. They are the plugin's code for this machine. Returns UNIMPLEMENTED if the plugin
/// cannot serialize.
CALLOUT_C_STATUS callout_executable_serialize(const callout_executable* executable,
                                              callout_bytes** out) CALLOUT_C_NOEXCEPT;
/// Loads an executable from the bytes that callout_executable_serialize returned. Uses the callbacks and
/// `embedded_code` of `options`, which may be null; its other members have no effect. The plugin trusts the bytes, so
/// load them only from a source from which you would load a shared library. Returns INVALID_ARGUMENT for bytes that are
/// damaged or that callout_executable_serialize did not return, FAILED_PRECONDITION for bytes of another plugin or
/// machine, NOT_FOUND for a name without a binding, and otherwise the plugin's own error.
CALLOUT_C_STATUS callout_executable_load(const callout_client* client, const void* data, size_t size,
                                         const callout_compile_options* options,
                                         callout_executable** out) CALLOUT_C_NOEXCEPT;
/// Returns 1 if the executable came from the cache, else 0.
CALLOUT_C_EXPORT int32_t callout_executable_is_from_cache(const callout_executable* executable) CALLOUT_C_NOEXCEPT;

/// Returns the number of devices on which the executable runs. 0 for null.
CALLOUT_C_EXPORT size_t callout_executable_num_devices(const callout_executable* executable) CALLOUT_C_NOEXCEPT;
/// Returns the number of outputs on each device. 0 for null.
CALLOUT_C_EXPORT size_t callout_executable_num_outputs(const callout_executable* executable) CALLOUT_C_NOEXCEPT;
/// Returns the number of names under which the program asked for callbacks. 0 for null.
CALLOUT_C_EXPORT size_t callout_executable_num_names(const callout_executable* executable) CALLOUT_C_NOEXCEPT;
/// Returns a name; null if there is no such name. Borrowed: valid until the executable is destroyed.
CALLOUT_C_EXPORT const char* callout_executable_name(const callout_executable* executable,
                                                     size_t index) CALLOUT_C_NOEXCEPT;
/// Destroys the handle. Takes ownership. Null has no effect. A running executable may be destroyed: the plugin's
/// threads keep it and its callbacks until they are done, which may be a moment after the outputs are ready. The call
/// of a closure's `destroy` marks that moment.
CALLOUT_C_EXPORT void callout_executable_destroy(callout_executable* executable) CALLOUT_C_NOEXCEPT;

struct DLManagedTensorVersioned;  // defined in dlpack.h, 1.0 or newer

/// An array on a device. Its value may not be computed yet.
typedef struct callout_array callout_array;

/// Copies a dense row-major array to the device; `data` may change when this returns. `dtype` is XLA's PrimitiveType
/// number, as in callout_buffer. `size_bytes` must be the size of the shape; an element of less than a byte takes a
/// whole byte here and in callout_array_to_host, in its low bits. `dims` may be null for a scalar, `data` for an array
/// without elements. OUT_OF_RANGE if there is no such device.
CALLOUT_C_STATUS callout_array_from_host(const callout_client* client, size_t device, uint32_t dtype,
                                         const int64_t* dims, size_t rank, const void* data, size_t size_bytes,
                                         callout_array** out) CALLOUT_C_NOEXCEPT;
/// Copies an array to a memory of the device, by the memory's kind; see callout_array_from_host. NOT_FOUND, with the
/// kinds that the device has, for another kind.
CALLOUT_C_STATUS callout_array_from_host_in(const callout_client* client, size_t device, const char* memory_kind,
                                            uint32_t dtype, const int64_t* dims, size_t rank, const void* data,
                                            size_t size_bytes, callout_array** out) CALLOUT_C_NOEXCEPT;
/// Makes an array like callout_array_from_host, but without a copy where the device works in the host's memory and
/// `data` is aligned as the plugin wants it (64 bytes are enough for XLA:CPU). `data` must not change until `destroy`
/// was called with `context`: once, on any thread, when nothing reads `data` any more. A call that fails never calls
/// `destroy`. `destroy` may be null.
CALLOUT_C_STATUS callout_array_from_host_shared(const callout_client* client, size_t device, uint32_t dtype,
                                                const int64_t* dims, size_t rank, const void* data, size_t size_bytes,
                                                void* context, void (*destroy)(void* context),
                                                callout_array** out) CALLOUT_C_NOEXCEPT;
/// Makes an array of a DLPack tensor, which must be dense, row-major and in the host's memory; see
/// callout_array_from_host_shared. Takes ownership on success: the tensor's deleter is called once, on any thread.
CALLOUT_C_STATUS callout_array_from_dlpack(const callout_client* client, size_t device,
                                           struct DLManagedTensorVersioned* tensor,
                                           callout_array** out) CALLOUT_C_NOEXCEPT;
/// Blocks until the array is ready, and lends it as a DLPack tensor, which keeps the array alive until its deleter is
/// called. FAILED_PRECONDITION if the array is not in the host's memory, or not row-major; INVALID_ARGUMENT for a type
/// that DLPack does not have.
CALLOUT_C_STATUS callout_array_to_dlpack(const callout_array* array,
                                         struct DLManagedTensorVersioned** out) CALLOUT_C_NOEXCEPT;
/// Copies an array to a device of `client`. The copy may not be ready yet. OUT_OF_RANGE if there is no such device.
CALLOUT_C_STATUS callout_array_copy(const callout_array* array, const callout_client* client, size_t device,
                                    callout_array** out) CALLOUT_C_NOEXCEPT;
/// Copies an array to a memory of the device, by the memory's kind. NOT_FOUND, with the kinds that the device has, for
/// another kind.
CALLOUT_C_STATUS callout_array_copy_in(const callout_array* array, const callout_client* client, size_t device,
                                       const char* memory_kind, callout_array** out) CALLOUT_C_NOEXCEPT;
/// Writes the kind of the array's memory. Borrowed: valid until the array's client is destroyed. UNIMPLEMENTED if the
/// plugin does not report it.
CALLOUT_C_STATUS callout_array_memory_kind(const callout_array* array, const char** out) CALLOUT_C_NOEXCEPT;
/// Writes the element type, as in callout_buffer.
CALLOUT_C_STATUS callout_array_dtype(const callout_array* array, uint32_t* out) CALLOUT_C_NOEXCEPT;
/// Writes the extents. `dims`: Borrowed: valid until the array is destroyed.
CALLOUT_C_STATUS callout_array_dims(const callout_array* array, const int64_t** dims, size_t* rank) CALLOUT_C_NOEXCEPT;
/// Writes the number of bytes that callout_array_to_host copies.
CALLOUT_C_STATUS callout_array_size_bytes(const callout_array* array, size_t* out) CALLOUT_C_NOEXCEPT;
/// Blocks until the value is ready, and copies it to `data`, dense and row-major. `size_bytes` must be the array's
/// size. Errors: those of the program that computes the value.
CALLOUT_C_STATUS callout_array_to_host(const callout_array* array, void* data, size_t size_bytes) CALLOUT_C_NOEXCEPT;
/// Destroys the handle. Takes ownership. Null has no effect.
CALLOUT_C_EXPORT void callout_array_destroy(callout_array* array) CALLOUT_C_NOEXCEPT;

/// Options of a run. All zeros are the defaults.
typedef struct callout_execute_options {
  size_t struct_size;             ///< sizeof(callout_execute_options).
  int32_t run_id;                 ///< Callbacks get it as run_id. 0: the plugin chooses.
  uint32_t reserved;              ///< Zero.
  const int64_t* donated_inputs;  ///< Numbers of donated arguments, which the program may overwrite and keep.
  size_t num_donated;             ///< Number of `donated_inputs`.
  /// The limit on the wait of callout_execute, which then returns DEADLINE_EXCEEDED while the run goes on. A program
  /// that XLA:CPU runs on the calling thread may take longer. 0: no limit. callout_execution_start ignores this field.
  double timeout_seconds;
  /// The pointer that callbacks get as callout_call::context, on any thread. Null: none. Borrowed: valid until the run
  /// is done, even if `timeout_seconds` ends the wait earlier; the call of `context_destroy` marks the end.
  void* context;
  /// Called once with `context`, on any thread, when the run is done and no callback will get `context` any more, or
  /// when the run was not started. Must not let an exception out. Null: no call.
  void (*context_destroy)(void* context);
} callout_execute_options;

/// Runs the executable on its devices, and Blocks until all are done. `arguments` holds `num_arguments` arrays per
/// device, one device after the other. `outputs` has room for `num_outputs` arrays, which must be num_devices *
/// num_outputs, one device after the other; for a program with several shapes, num_outputs is that of the variant that
/// these arguments select. `options` may be null. Errors: INVALID_ARGUMENT for wrong numbers or for arrays of another
/// client; the callback's, with its own code and text; else the plugin's own.
CALLOUT_C_STATUS callout_execute(const callout_executable* executable, callout_array* const* arguments,
                                 size_t num_arguments, const callout_execute_options* options, callout_array** outputs,
                                 size_t num_outputs) CALLOUT_C_NOEXCEPT;

/// A run that was started. Destroying the handle does not end the run.
typedef struct callout_execution callout_execution;

/// Starts a run like callout_execute, but may return before the run is done. Small programs run at once, in this call.
CALLOUT_C_STATUS callout_execution_start(const callout_executable* executable, callout_array* const* arguments,
                                         size_t num_arguments, const callout_execute_options* options,
                                         callout_execution** out) CALLOUT_C_NOEXCEPT;
/// Blocks until all devices are done, and returns the run's status. `timeout_seconds` < 0 waits for ever.
/// DEADLINE_EXCEEDED after the timeout: the run goes on, and the caller may wait again. Not thread-safe.
CALLOUT_C_STATUS callout_execution_wait(callout_execution* execution, double timeout_seconds) CALLOUT_C_NOEXCEPT;
/// Takes an output out of the run, once. The output may not be ready yet, and may be an argument of the next run.
/// OUT_OF_RANGE if there is no such output, FAILED_PRECONDITION if it was taken before. Not thread-safe.
CALLOUT_C_STATUS callout_execution_take(callout_execution* execution, size_t device, size_t output,
                                        callout_array** out) CALLOUT_C_NOEXCEPT;
/// Destroys the handle. Takes ownership. Null has no effect. The run goes on.
CALLOUT_C_EXPORT void callout_execution_destroy(callout_execution* execution) CALLOUT_C_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
