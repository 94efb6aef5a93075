// SPDX-License-Identifier: Apache-2.0
//
// Callout for hosts in C, and in whatever language calls C. Two levels:
//
// - a host with a PJRT binding of its own: callout_attach, callbacks, a binding scope around its own compilation;
// - a host without one: callout_plugin_load, clients, programs, executables, arrays.
//
// What holds everywhere: functions that can fail return a callout_status, null if all went well, which the caller
// destroys. Outputs are written only then. A null where none may be is an INVALID_ARGUMENT that names it. Handles are
// destroyed by the function of their name, which takes null; each keeps alive what it was made from, so the order does
// not matter. Strings are UTF-8 and NUL-terminated. What a function is given, it copies, unless it says otherwise.
// Nothing here needs or takes Python's GIL; nothing throws. Unless they say so, functions are thread-safe, as long as
// no handle is destroyed while another thread is using it.
//
// Option structs begin with `struct_size`: sizeof of the struct that the caller was compiled with. Zeros elsewhere are
// defaults, and a null pointer to options is all zeros. A library that does not know a field which is not zero refuses.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "callout/abi.h"

#ifdef __cplusplus
/// In C++: nothing here throws.
#define CALLOUT_C_NOEXCEPT noexcept
extern "C" {
#else
#define CALLOUT_C_NOEXCEPT
#endif

/// What the library exports.
#define CALLOUT_C_EXPORT __attribute__((visibility("default")))
/// Whatever can fail. The status is not to be ignored: it would stay.
#define CALLOUT_C_STATUS __attribute__((visibility("default"), warn_unused_result)) callout_status*

/// Grows with every addition; nothing is ever removed.
#define CALLOUT_C_API_VERSION 1
/// Returns the version of the library that is loaded.
CALLOUT_C_EXPORT uint32_t callout_c_api_version(void) CALLOUT_C_NOEXCEPT;

/// Why something failed. Null is success, here and everywhere.
typedef struct callout_status callout_status;

/// Returns a canonical code, such as 0 ok, 3 invalid argument, 4 deadline exceeded, 5 not found, 13 internal.
CALLOUT_C_EXPORT int32_t callout_status_code(const callout_status* status) CALLOUT_C_NOEXCEPT;
/// "" if ok. Borrowed: valid until the status is destroyed.
CALLOUT_C_EXPORT const char* callout_status_message(const callout_status* status) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing.
CALLOUT_C_EXPORT void callout_status_destroy(callout_status* status) CALLOUT_C_NOEXCEPT;

/// A callback under the name by which programs ask for it. Executables keep the callbacks that they use, so it may be
/// destroyed after the compilation, and may be given to several.
typedef struct callout_callback callout_callback;

/// Takes ownership of the closure's context if it succeeds; `destroy` is then called once, on any thread, when the
/// handle and all executables that use it are gone. Programs call it on their own threads, several at once; its taps
/// come on a thread of Callout's, in order for each device.
CALLOUT_C_STATUS callout_callback_from_closure(const char* name, const callout_closure* closure,
                                               callout_callback** out) CALLOUT_C_NOEXCEPT;
/// A function of a shared library, "path/lib.so:symbol", which stays loaded.
CALLOUT_C_STATUS callout_callback_from_library(const char* name, const char* library_and_symbol,
                                               callout_callback** out) CALLOUT_C_NOEXCEPT;

/// The kinds that have numbers; callout_callback_from_serialized makes all of them, with their options.
enum callout_sink_kind {
  CALLOUT_SINK_NULL = 0,
  CALLOUT_SINK_PRINT = 1,        ///< A line each on standard output, in the format `path` if that is not null.
  CALLOUT_SINK_JSON_LINES = 2,   ///< A JSON object each in the file `path`, which is written anew.
  CALLOUT_SINK_CSV = 3,          ///< A line each in the file `path`, which is written anew.
  CALLOUT_SINK_TENSORBOARD = 4,  ///< An event each in a new event file in the folder `path`.
  CALLOUT_SINK_ARROW = 5,        ///< A row each of an Arrow IPC stream in the file `path`, which is written anew.
  CALLOUT_SINK_NPY = 6,   ///< A row each in the .npy file `path`, or one a leaf if `{leaf}` is in it; written anew.
  CALLOUT_SINK_ZARR = 7,  ///< A row each of an array a leaf in the Zarr store `path`, which is emptied.
};

/// A receiver of taps. `path` may be null where the kind has none.
CALLOUT_C_STATUS callout_callback_from_sink(const char* name, uint32_t kind, const char* path,
                                            callout_callback** out) CALLOUT_C_NOEXCEPT;

/// "kind:payload" of a C++ host's Serialize: a sink with its options ("print", "null", "csv,append:PATH", ...: see
/// docs/sinks.md), "library:PATH:SYMBOL", or of a kind that the process has a maker for. NOT_FOUND, with the known
/// kinds, for another one.
CALLOUT_C_STATUS callout_callback_from_serialized(const char* name, const char* serialized,
                                                  callout_callback** out) CALLOUT_C_NOEXCEPT;

/// Borrowed: valid until the callback is destroyed. "" for null.
CALLOUT_C_EXPORT const char* callout_callback_name(const callout_callback* callback) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing. Executables keep the callbacks that they use.
CALLOUT_C_EXPORT void callout_callback_destroy(callout_callback* callback) CALLOUT_C_NOEXCEPT;

/// Blocks until every tap that programs made before is delivered; `timeout_seconds` < 0: for ever. Error: that of the
/// last tap that failed since the last call, DEADLINE_EXCEEDED with what is outstanding, or FAILED_PRECONDITION in a
/// process that was forked from one that used Callout. Not from a callback.
CALLOUT_C_STATUS callout_barrier_wait(double timeout_seconds) CALLOUT_C_NOEXCEPT;

// For hosts with a PJRT binding of their own.

/// Registers Callout's FFI targets with the runtime of a PJRT plugin, which the host has loaded and initialised.
/// `pjrt_api`: the `const PJRT_Api*` that its GetPjrtApi returned; the plugin stays loaded from then on. Once a plugin;
/// again is no error. Errors: FAILED_PRECONDITION for another major version of PJRT, or no FFI extension; else the
/// plugin's own.
CALLOUT_C_STATUS callout_attach(const void* pjrt_api) CALLOUT_C_NOEXCEPT;

/// Names that hold for what this thread compiles, or loads from a cache, between begin and end.
typedef struct callout_binding_scope callout_binding_scope;

/// Programs that this thread compiles meanwhile find these callbacks first, and those of the process's registry then.
/// May be nested: the innermost counts. The callbacks are kept. Errors: INVALID_ARGUMENT for two of one name.
CALLOUT_C_STATUS callout_binding_scope_begin(callout_callback* const* callbacks, size_t num_callbacks,
                                             callout_binding_scope** out) CALLOUT_C_NOEXCEPT;
/// Returns how many names programs have asked for since the beginning, each once; also after a compilation that failed.
/// Not thread-safe: of the scope's thread.
CALLOUT_C_EXPORT size_t callout_binding_scope_num_names(const callout_binding_scope* scope) CALLOUT_C_NOEXCEPT;
/// Null if there is no such name. Borrowed: valid until the next compilation, or until the end.
CALLOUT_C_EXPORT const char* callout_binding_scope_name(const callout_binding_scope* scope,
                                                        size_t index) CALLOUT_C_NOEXCEPT;
/// Destroys the scope. Null is nothing. FAILED_PRECONDITION, and nothing happens, if it is not the innermost scope of
/// this thread: a runtime that moves its threads of execution between those of the system locks them meanwhile.
CALLOUT_C_STATUS callout_binding_scope_end(callout_binding_scope* scope) CALLOUT_C_NOEXCEPT;

// For hosts without one.

/// A PJRT plugin: XLA as a shared library. Loaded once a process and path, and never unloaded.
typedef struct callout_plugin callout_plugin;

/// `path` null or "": what the environment variable CALLOUT_PJRT_PLUGIN names, or else the CPU plugin of the active
/// Python environment. Callout's targets are attached. Errors: NOT_FOUND with what was tried; as callout_attach.
CALLOUT_C_STATUS callout_plugin_load(const char* path, callout_plugin** out) CALLOUT_C_NOEXCEPT;
/// Borrowed: valid until the plugin is destroyed. "" for null.
CALLOUT_C_EXPORT const char* callout_plugin_path(const callout_plugin* plugin) CALLOUT_C_NOEXCEPT;
/// The version of the PJRT C API that the plugin has. Either output may be null.
CALLOUT_C_EXPORT void callout_plugin_version(const callout_plugin* plugin, int32_t* major,
                                             int32_t* minor) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing. The plugin's library stays loaded.
CALLOUT_C_EXPORT void callout_plugin_destroy(callout_plugin* plugin) CALLOUT_C_NOEXCEPT;

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;
/// An XLA_FFI_Handler of xla/ffi/api/c_api.h.
typedef struct XLA_FFI_Error* (*callout_ffi_function)(struct XLA_FFI_CallFrame* frame);

/// A custom call of programs. The functions stay until the process ends; plugins call them on any thread.
typedef struct callout_ffi_handler {
  size_t struct_size;                ///< sizeof(callout_ffi_handler).
  const char* name;                  ///< What stablehlo.custom_call says.
  const char* platform;              ///< Null: "cpu".
  callout_ffi_function execute;      ///< The function itself.
  callout_ffi_function instantiate;  ///< Null for stages that it does not have.
  callout_ffi_function prepare;      ///< Or null.
  callout_ffi_function initialize;   ///< Or null.
  uint32_t traits;                   ///< XLA_FFI_HANDLER_TRAITS_*.
} callout_ffi_handler;

/// For programs that are compiled from now on. Those of LAPACK (lapack_*_ffi) are there without it. Errors:
/// INVALID_ARGUMENT without a name or `execute`; those of the runtime, such as another handler of that name.
CALLOUT_C_STATUS callout_plugin_register_handler(const callout_plugin* plugin,
                                                 const callout_ffi_handler* handler) CALLOUT_C_NOEXCEPT;
/// The function at "path/lib.so:symbol", whose library stays loaded. Errors: NOT_FOUND with what was attempted.
CALLOUT_C_STATUS callout_find_ffi_function(const char* library_and_symbol,
                                           callout_ffi_function* out) CALLOUT_C_NOEXCEPT;

/// Which member of a callout_option holds its value.
enum callout_option_kind {
  CALLOUT_OPTION_STRING = 1,    ///< `text`
  CALLOUT_OPTION_INTEGER = 2,   ///< `integer`
  CALLOUT_OPTION_INTEGERS = 3,  ///< `integers`, `num_integers` of them
  CALLOUT_OPTION_FLOAT = 4,     ///< `real`
  CALLOUT_OPTION_BOOL = 5,      ///< `integer`, 0 or 1
};

/// An option that the plugin knows. An array's element, and therefore frozen as it is.
typedef struct callout_option {
  const char* name;         ///< As the plugin or XLA calls it.
  uint32_t kind;            ///< callout_option_kind
  uint32_t reserved;        ///< Zero.
  int64_t integer;          ///< Of CALLOUT_OPTION_INTEGER and CALLOUT_OPTION_BOOL.
  double real;              ///< Of CALLOUT_OPTION_FLOAT.
  const char* text;         ///< Of CALLOUT_OPTION_STRING.
  const int64_t* integers;  ///< Of CALLOUT_OPTION_INTEGERS.
  size_t num_integers;      ///< Number of `integers`.
} callout_option;

/// How a client is made. All zeros are defaults.
typedef struct callout_client_options {
  size_t struct_size;            ///< sizeof(callout_client_options).
  const callout_option* values;  ///< The CPU plugin knows "cpu_device_count", an integer.
  size_t num_values;             ///< Number of `values`.
  /// XLA:CPU runs one program at a time on a device, so a callback that blocks would stop the device. Of programs with
  /// calls on one device so many may be under way at once, on threads of their own. 0: 32. -1: one at a time, with all
  /// else on the device.
  int32_t concurrent_runs;
  uint32_t reserved;  ///< Zero.
} callout_client_options;

/// A plugin at work. Destroyed with the last handle that was made with it, which waits for running programs.
typedef struct callout_client callout_client;

/// `options` may be null.
CALLOUT_C_STATUS callout_client_create(const callout_plugin* plugin, const callout_client_options* options,
                                       callout_client** out) CALLOUT_C_NOEXCEPT;
/// "cpu", "cuda", ... Borrowed: valid until the client is destroyed. "" for null.
CALLOUT_C_EXPORT const char* callout_client_platform(const callout_client* client) CALLOUT_C_NOEXCEPT;
/// Those that this process may use. 0 for null.
CALLOUT_C_EXPORT size_t callout_client_num_devices(const callout_client* client) CALLOUT_C_NOEXCEPT;

/// What a client says of one of its devices.
typedef struct callout_device {
  size_t struct_size;  ///< sizeof(callout_device), which the caller sets.
  int32_t id;          ///< Among all devices of all processes.
  int32_t ordinal;     ///< Among those of its kind on this host; what callbacks see as device_ordinal.
  const char* kind;    ///< Borrowed: valid until the client is destroyed.
} callout_device;

/// Fills `out`, whose struct_size the caller has set. OUT_OF_RANGE if there is no such device.
CALLOUT_C_STATUS callout_client_device(const callout_client* client, size_t index,
                                       callout_device* out) CALLOUT_C_NOEXCEPT;
/// Returns how many memories the device can use. 0 for null, for no such device, and if the plugin does not tell.
CALLOUT_C_EXPORT size_t callout_client_num_memories(const callout_client* client, size_t device) CALLOUT_C_NOEXCEPT;
/// "device", "pinned_host", ...; null if there is no such memory. Borrowed: valid until the client is destroyed.
CALLOUT_C_EXPORT const char* callout_client_memory_kind(const callout_client* client, size_t device,
                                                        size_t index) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing. Handles that were made with the client keep it.
CALLOUT_C_EXPORT void callout_client_destroy(callout_client* client) CALLOUT_C_NOEXCEPT;

/// A StableHLO program: MLIR text, MLIR bytecode, a portable artifact, or a file of jax.export's Exported.serialize.
/// INVALID_ARGUMENT for what is none of them.
typedef struct callout_program callout_program;

/// Reads a program from a file. Errors: NOT_FOUND and PERMISSION_DENIED with the path.
CALLOUT_C_STATUS callout_program_from_file(const char* path, callout_program** out) CALLOUT_C_NOEXCEPT;
/// Copies a program from memory.
CALLOUT_C_STATUS callout_program_from_bytes(const void* data, size_t size, callout_program** out) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing.
CALLOUT_C_EXPORT void callout_program_destroy(callout_program* program) CALLOUT_C_NOEXCEPT;

/// The values of callout_compile_options::embedded_code. Compiling a program whose code is refused returns
/// FAILED_PRECONDITION. Loading code runs its initialisers.
enum callout_embedded_code {
  CALLOUT_EMBEDDED_CODE_BY_ENVIRONMENT = 0,  ///< As CALLOUT_EMBEDDED_CODE says; allowed where it is not set.
  CALLOUT_EMBEDDED_CODE_ALLOWED = 1,
  CALLOUT_EMBEDDED_CODE_REFUSED = 2,
};

/// How a program is compiled. All zeros are defaults.
typedef struct callout_compile_options {
  size_t struct_size;                  ///< sizeof(callout_compile_options).
  callout_callback* const* callbacks;  ///< Bound by their names, before those of the process's registry.
  size_t num_callbacks;                ///< Number of `callbacks`.
  int32_t num_replicas;                ///< 0: 1.
  int32_t num_partitions;              ///< 0: as many as the program was exported for, or 1.
  const int32_t* device_assignment;    ///< Ids of the devices, replica by replica. Null: the first ones.
  size_t num_assigned;                 ///< num_replicas * num_partitions, or 0.
  const callout_option* xla_options;   ///< XLA's debug options for this program, by their names without dashes.
  size_t num_xla_options;              ///< Number of `xla_options`.
  /// A folder of compiled programs: one that is there is loaded, another one is put there. Programs, options, plugins
  /// and machines are told apart. It is made with mode 0700 if it is missing. Null: none.
  const char* cache_directory;
  /// A process that reads and compiles the program, which may crash it: the path or name of a program, its arguments,
  /// and null; {"callout", "compile-request", NULL} is the installed command. INTERNAL if a signal ends it. Null: none.
  const char* const* process_command;
  double process_timeout_seconds;  ///< Then it is killed, and DEADLINE_EXCEEDED is returned. 0: for ever.
  /// Whether native code that the program carries may be loaded into this process: an enum callout_embedded_code.
  int32_t embedded_code;
} callout_compile_options;

/// A compiled program with its callbacks.
typedef struct callout_executable callout_executable;

/// `options` may be null. Errors: INVALID_ARGUMENT for two callbacks of one name and for numbers of devices that cannot
/// be; NOT_FOUND for a name that nothing is bound to, with the names that the program needs where it says so;
/// PERMISSION_DENIED for a cache to which others may write; else the plugin's own.
CALLOUT_C_STATUS callout_compile(const callout_client* client, const callout_program* program,
                                 const callout_compile_options* options, callout_executable** out) CALLOUT_C_NOEXCEPT;

/// Bytes that a function hands over.
typedef struct callout_bytes callout_bytes;
/// Borrowed: valid until the bytes are destroyed. Null for null.
CALLOUT_C_EXPORT const void* callout_bytes_data(const callout_bytes* bytes) CALLOUT_C_NOEXCEPT;
/// Returns the number of bytes. 0 for null.
CALLOUT_C_EXPORT size_t callout_bytes_size(const callout_bytes* bytes) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing.
CALLOUT_C_EXPORT void callout_bytes_destroy(callout_bytes* bytes) CALLOUT_C_NOEXCEPT;

/// What callout_executable_load makes it of again, also in another process. Callbacks are in it by name only. It is
/// code of the plugin's, for this machine. UNIMPLEMENTED if the plugin has none.
CALLOUT_C_STATUS callout_executable_serialize(const callout_executable* executable,
                                              callout_bytes** out) CALLOUT_C_NOEXCEPT;
/// As callout_compile, of what callout_executable_serialize handed over; of `options` only the callbacks count. The
/// plugin believes the bytes: load only what you would load a shared library from. Errors: INVALID_ARGUMENT for
/// anything else and for damage; FAILED_PRECONDITION for what another plugin or machine made; NOT_FOUND for a name that
/// nothing is bound to; else the plugin's own.
CALLOUT_C_STATUS callout_executable_load(const callout_client* client, const void* data, size_t size,
                                         const callout_compile_options* options,
                                         callout_executable** out) CALLOUT_C_NOEXCEPT;
/// 1 if it was found in the cache, else 0.
CALLOUT_C_EXPORT int32_t callout_executable_is_from_cache(const callout_executable* executable) CALLOUT_C_NOEXCEPT;

/// 0 for null, as those below.
CALLOUT_C_EXPORT size_t callout_executable_num_devices(const callout_executable* executable) CALLOUT_C_NOEXCEPT;
/// Returns the number of outputs that each device has.
CALLOUT_C_EXPORT size_t callout_executable_num_outputs(const callout_executable* executable) CALLOUT_C_NOEXCEPT;
/// Returns under how many names the program asked for callbacks.
CALLOUT_C_EXPORT size_t callout_executable_num_names(const callout_executable* executable) CALLOUT_C_NOEXCEPT;
/// Null if there is no such name. Borrowed: valid until the executable is destroyed.
CALLOUT_C_EXPORT const char* callout_executable_name(const callout_executable* executable,
                                                     size_t index) CALLOUT_C_NOEXCEPT;
/// Safe while it runs. The plugin's threads keep it, and so its callbacks, until they are done with it, which may be a
/// moment after the outputs are there. A closure's `destroy` tells.
CALLOUT_C_EXPORT void callout_executable_destroy(callout_executable* executable) CALLOUT_C_NOEXCEPT;

struct DLManagedTensorVersioned;  // of dlpack.h, 1.0 or newer

/// An array on a device; its value may still be in the making.
typedef struct callout_array callout_array;

/// Copies a dense row-major array to the device; `data` is free when this returns. `dtype`: XLA's PrimitiveType number,
/// as in callout_buffer. `size_bytes` must be what the shape needs; elements of less than a byte take one each here and
/// in callout_array_to_host, in its low bits.
/// `dims` may be null for a scalar, `data` for an array without elements. OUT_OF_RANGE if there is no such device.
CALLOUT_C_STATUS callout_array_from_host(const callout_client* client, size_t device, uint32_t dtype,
                                         const int64_t* dims, size_t rank, const void* data, size_t size_bytes,
                                         callout_array** out) CALLOUT_C_NOEXCEPT;
/// As callout_array_from_host, in the device's memory of a kind. NOT_FOUND, with those that there are, for another.
CALLOUT_C_STATUS callout_array_from_host_in(const callout_client* client, size_t device, const char* memory_kind,
                                            uint32_t dtype, const int64_t* dims, size_t rank, const void* data,
                                            size_t size_bytes, callout_array** out) CALLOUT_C_NOEXCEPT;
/// As callout_array_from_host, but without a copy where the device works in the host's memory and `data` is aligned as
/// the plugin wants it (64 bytes are enough for XLA:CPU). `data` must not change until `destroy` was called with
/// `context`: once, on any thread, when nothing reads it any more; not if this fails. `destroy` may be null.
CALLOUT_C_STATUS callout_array_from_host_shared(const callout_client* client, size_t device, uint32_t dtype,
                                                const int64_t* dims, size_t rank, const void* data, size_t size_bytes,
                                                void* context, void (*destroy)(void* context),
                                                callout_array** out) CALLOUT_C_NOEXCEPT;
/// The array of a tensor of DLPack, dense, row-major and in the host's memory, as callout_array_from_host_shared has
/// it. Takes ownership if it succeeds: calls the tensor's deleter, once and on any thread.
CALLOUT_C_STATUS callout_array_from_dlpack(const callout_client* client, size_t device,
                                           struct DLManagedTensorVersioned* tensor,
                                           callout_array** out) CALLOUT_C_NOEXCEPT;
/// Blocks until the array is there, and lends it as a tensor of DLPack, which keeps it until its deleter is called.
/// FAILED_PRECONDITION if it is not in the host's memory, or not row-major; INVALID_ARGUMENT for a type that DLPack
/// does not have.
CALLOUT_C_STATUS callout_array_to_dlpack(const callout_array* array,
                                         struct DLManagedTensorVersioned** out) CALLOUT_C_NOEXCEPT;
/// A copy on a device of `client`. It may not be there yet. OUT_OF_RANGE if there is no such device.
CALLOUT_C_STATUS callout_array_copy(const callout_array* array, const callout_client* client, size_t device,
                                    callout_array** out) CALLOUT_C_NOEXCEPT;
/// As callout_array_copy, in the device's memory of a kind. NOT_FOUND, with those that there are, for another kind.
CALLOUT_C_STATUS callout_array_copy_in(const callout_array* array, const callout_client* client, size_t device,
                                       const char* memory_kind, callout_array** out) CALLOUT_C_NOEXCEPT;
/// Its memory's kind. Borrowed: valid until the array's client is destroyed. UNIMPLEMENTED if the plugin does not tell.
CALLOUT_C_STATUS callout_array_memory_kind(const callout_array* array, const char** out) CALLOUT_C_NOEXCEPT;
/// The element type, as callout_buffer has it.
CALLOUT_C_STATUS callout_array_dtype(const callout_array* array, uint32_t* out) CALLOUT_C_NOEXCEPT;
/// `dims`: Borrowed: valid until the array is destroyed.
CALLOUT_C_STATUS callout_array_dims(const callout_array* array, const int64_t** dims, size_t* rank) CALLOUT_C_NOEXCEPT;
/// Bytes that callout_array_to_host copies.
CALLOUT_C_STATUS callout_array_size_bytes(const callout_array* array, size_t* out) CALLOUT_C_NOEXCEPT;
/// Blocks until the value is there, and copies it to `data`, dense and row-major. `size_bytes` must be the array's.
/// Errors: those of the program that makes it.
CALLOUT_C_STATUS callout_array_to_host(const callout_array* array, void* data, size_t size_bytes) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing.
CALLOUT_C_EXPORT void callout_array_destroy(callout_array* array) CALLOUT_C_NOEXCEPT;

/// How a program is run. All zeros are defaults.
typedef struct callout_execute_options {
  size_t struct_size;             ///< sizeof(callout_execute_options).
  int32_t run_id;                 ///< What callbacks see as run_id. 0: the plugin's choice.
  uint32_t reserved;              ///< Zero.
  const int64_t* donated_inputs;  ///< Numbers of arguments that a program made for it may overwrite and keep.
  size_t num_donated;             ///< Number of `donated_inputs`.
  /// How long callout_execute waits; DEADLINE_EXCEEDED then, and what was started goes on. A program that XLA:CPU runs
  /// on the thread that asks for it may take longer. 0: until it is done. Of callout_execution_start it is none.
  double timeout_seconds;
  /// What callbacks see as callout_call::context, on any thread. Null: none. Borrowed: valid until the run is done,
  /// also when `timeout_seconds` is over earlier; `context_destroy` tells.
  void* context;
  /// Called once with `context`, on any thread, when the run is done and no callback will see it any more, or when it
  /// was not started. Must not let an exception out. Null: nothing to do.
  void (*context_destroy)(void* context);
} callout_execute_options;

/// Runs it on its devices and Blocks until all are done. `arguments`: `num_arguments` a device, one device after the
/// other. `outputs`: room for `num_outputs` arrays, which must be all: num_devices * num_outputs, one device after the
/// other; of a program for several shapes, those that the program for these arguments has. `options` may be null.
/// Errors: INVALID_ARGUMENT for other numbers or arrays of another client; the callback's, with its own code and text;
/// else the plugin's own.
CALLOUT_C_STATUS callout_execute(const callout_executable* executable, callout_array* const* arguments,
                                 size_t num_arguments, const callout_execute_options* options, callout_array** outputs,
                                 size_t num_outputs) CALLOUT_C_NOEXCEPT;

/// A run that was started. Destroying it does not end it.
typedef struct callout_execution callout_execution;

/// As callout_execute, but may return before it is done. Small programs run at once, in this call.
CALLOUT_C_STATUS callout_execution_start(const callout_executable* executable, callout_array* const* arguments,
                                         size_t num_arguments, const callout_execute_options* options,
                                         callout_execution** out) CALLOUT_C_NOEXCEPT;
/// Blocks until all devices are done; returns how it went. `timeout_seconds` < 0: for ever. DEADLINE_EXCEEDED when it
/// is over: nothing is cancelled, and it may be waited for again. Not thread-safe, as the next one.
CALLOUT_C_STATUS callout_execution_wait(callout_execution* execution, double timeout_seconds) CALLOUT_C_NOEXCEPT;
/// Hands over an output, once. It need not be there yet, and may be an argument of the next run. OUT_OF_RANGE if there
/// is none, FAILED_PRECONDITION if it was taken.
CALLOUT_C_STATUS callout_execution_take(callout_execution* execution, size_t device, size_t output,
                                        callout_array** out) CALLOUT_C_NOEXCEPT;
/// Takes ownership. Null is nothing. The run goes on.
CALLOUT_C_EXPORT void callout_execution_destroy(callout_execution* execution) CALLOUT_C_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
