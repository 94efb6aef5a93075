// SPDX-License-Identifier: Apache-2.0
//
// The C ABI between Callout and native callbacks. The structs are plain C and frozen per CALLOUT_ABI_VERSION: a later
// version only appends fields, and `struct_size` tells a reader which fields the writer of a struct knew. C++ authors
// include callout/call.h instead.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The version of the structs below.
#define CALLOUT_ABI_VERSION 1

/// One operand or result. Borrowed: valid until the callback returns.
typedef struct callout_buffer {
  uint32_t dtype;  ///< XLA PrimitiveType number, see callout/dtype.h.
  uint32_t rank;   ///< Number of dimensions; 0 for a scalar.
  void* data;      ///< Row-major, dense; sub-byte types are packed, low bits first. Null only if `size_bytes` is 0.
  const int64_t* dims;  ///< `rank` extents, in elements.
  uint64_t size_bytes;  ///< Bytes at `data`.
} callout_buffer;

/// The kinds of values that an attribute holds.
enum callout_attribute_kind {
  CALLOUT_ATTRIBUTE_SCALAR = 1,
  CALLOUT_ATTRIBUTE_ARRAY = 2,
  CALLOUT_ATTRIBUTE_STRING = 3,
};

/// A constant that the program passes by name. Borrowed: valid as long as the executable.
typedef struct callout_attribute {
  const char* name;  ///< NUL-terminated.
  uint32_t kind;     ///< callout_attribute_kind
  uint32_t dtype;    ///< Element type of the scalar or array, as in callout_buffer; 0 for strings.
  const void* data;  ///< Strings are NUL-terminated.
  uint64_t count;    ///< Number of elements; for strings the length without the NUL.
} callout_attribute;

/// The memory in which a call's buffers lie.
enum callout_platform {
  CALLOUT_PLATFORM_HOST = 0,
  CALLOUT_PLATFORM_CUDA = 1,  ///< Memory of a CUDA device: the host must not touch it.
};

/// One call of a callback. Borrowed: valid until the callback returns.
typedef struct callout_call {
  size_t struct_size;             ///< sizeof(callout_call) of the core.
  uint32_t num_args;              ///< Number of `args`.
  uint32_t num_results;           ///< 0 for taps.
  const callout_buffer* args;     ///< The operands, read-only.
  const callout_buffer* results;  ///< The callback fills these in place; uninitialised on entry.
  int64_t run_id;                 ///< Same for all devices of one launch; 0 outside a compiled program.
  int32_t device_ordinal;         ///< The device's number in XLA; on CPU the id of the jax.Device. -1 if unknown.
  uint32_t platform;              ///< callout_platform
  void* error_context;            ///< Opaque, passed to `set_error`.
  /// Reports why the callback is about to return nonzero. `code` is a canonical status code (13 = INTERNAL). The text
  /// is copied. GIL not needed.
  void (*set_error)(void* error_context, int32_t code, const char* message, size_t length);
  const callout_attribute* attributes;  ///< Sorted by name.
  uint32_t num_attributes;              ///< Number of `attributes`.
  uint32_t reserved2;                   ///< Zero.
  void* allocator;                      ///< Opaque, passed to `allocate`.
  /// Returns uninitialised memory that lives until the callback returns; null if no memory is left. `alignment` is a
  /// power of two up to 64.
  void* (*allocate)(void* allocator, uint64_t bytes, uint64_t alignment);
  /// On a device, the CUstream on which the program computes; null on the host. Work that the callback queues on the
  /// stream runs after the work that fills the arguments and before the work that reads the results. The device's
  /// context is current.
  void* stream;
  /// The pointer that the host gave to this run (ExecuteOptions::context, callout_execute_options::context); null if
  /// the host gave none, for taps and under JAX. Borrowed: valid until the callback returns. Callbacks of one run may
  /// use the pointer at once.
  void* context;
} callout_call;

/// A native callback. Returns 0, or nonzero after `call->set_error`. Must not let an exception out. XLA threads call
/// it, several at once.
typedef int32_t (*callout_call_fn)(const callout_call* call);

/// The plain form for code that knows nothing of Callout. `ptrs` holds the data pointers of all arguments, then of all
/// results, then of the attributes sorted by name; `dims` holds the extents of arguments and results, one array after
/// the other. Returns 0, or an error code of its own.
typedef int32_t (*callout_pointers_fn)(void** ptrs, const int64_t* dims);

/// The plain form for device memory: a callout_pointers_fn with one more parameter, the stream of callout_call. A
/// function that is only called on devices may have this type wherever a callout_pointers_fn is expected.
typedef int32_t (*callout_stream_fn)(void** ptrs, const int64_t* dims, void* stream);

/// The kinds of functions that a callout_function holds.
enum callout_function_kind {
  CALLOUT_FUNCTION_POINTERS = 1,  ///< `fn` is a callout_pointers_fn.
  CALLOUT_FUNCTION_CALL = 2,      ///< `fn` is a callout_call_fn.
};

/// The kinds of parameters that a function has.
enum callout_parameter_kind {
  CALLOUT_PARAMETER_IN = 1,
  CALLOUT_PARAMETER_OUT = 2,
  CALLOUT_PARAMETER_ATTRIBUTE = 3,
};

/// A function's description of one of its parameters, by which calls are checked when a program is traced.
typedef struct callout_parameter {
  uint32_t kind;      ///< callout_parameter_kind
  uint32_t dtype;     ///< 0 for string attributes.
  int32_t rank;       ///< -1: any rank. Attributes: 0 for a scalar, 1 for an array or a string.
  uint32_t reserved;  ///< Zero.
  const char* name;   ///< Name of an attribute; null for other parameters.
} callout_parameter;

/// The record that a shared library exports under a callback's symbol. CALLOUT_DEFINE_CALLBACK and CALLOUT_KERNEL write
/// it.
typedef struct callout_function {
  size_t struct_size;                   ///< sizeof(callout_function).
  uint32_t abi_version;                 ///< CALLOUT_ABI_VERSION.
  uint32_t kind;                        ///< callout_function_kind
  void (*fn)(void);                     ///< The function, cast to this type.
  const callout_parameter* parameters;  ///< Null if the library does not describe them.
  uint32_t num_parameters;              ///< Number of `parameters`.
  uint32_t reserved;                    ///< Zero.
} callout_function;

/// A function and its context in one value: a callback in any language, about which its caller knows nothing else.
/// Copies are the same closure; only one of them, the owner's, is destroyed.
typedef struct callout_closure {
  size_t struct_size;  ///< sizeof(callout_closure); 0 after callout_closure_take.
  /// A callout_call_fn with the context as its first parameter. Taps make calls without results.
  int32_t (*call)(void* context, const callout_call* call);
  void* context;  ///< First argument of `call` and `destroy`.
  /// Destroys the context; null if there is nothing to destroy. The owner calls it once, on any thread, when no call is
  /// running and no other call will come. Must not let an exception out.
  void (*destroy)(void* context);
} callout_closure;

/// Moves the closure: `from` is empty afterwards, and whoever gets the result owns the context. Not thread-safe.
static inline callout_closure callout_closure_take(callout_closure* from) {
  callout_closure taken = *from;
  from->struct_size = 0;
  from->call = NULL;
  from->context = NULL;
  from->destroy = NULL;
  return taken;
}

/// The table through which a library that does not link libcallout reaches the core of the process.
typedef struct callout_api {
  size_t struct_size;    ///< sizeof(callout_api) of the core.
  uint32_t abi_version;  ///< The core's CALLOUT_ABI_VERSION.
  /// Binds `name` to `function`. Returns 0, or a canonical status code with the reason in `error` (NUL-terminated,
  /// truncated to `error_size`). Thread-safe. GIL not needed.
  int32_t (*register_function)(const char* name, const callout_function* function, char* error, size_t error_size);
  /// Unbinds `name`. Compiled programs keep the callback that they have until `name` is bound again. Thread-safe. GIL
  /// not needed.
  int32_t (*unregister)(const char* name, char* error, size_t error_size);
} callout_api;

/// Returns the table, or null if this core does not support `abi_version`. Thread-safe.
__attribute__((visibility("default"))) const callout_api* callout_get_api(uint32_t abi_version);

#ifdef __cplusplus
}  // extern "C"
#endif
