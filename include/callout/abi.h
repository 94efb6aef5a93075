// SPDX-License-Identifier: Apache-2.0
//
// The C ABI between Callout and native callbacks. Plain C structs, frozen per CALLOUT_ABI_VERSION: fields are only ever
// appended, and `struct_size` tells a reader which fields its writer knew. C++ authors include callout/call.h instead.
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

/// What an attribute holds.
enum callout_attribute_kind {
  CALLOUT_ATTRIBUTE_SCALAR = 1,
  CALLOUT_ATTRIBUTE_ARRAY = 2,
  CALLOUT_ATTRIBUTE_STRING = 3,
};

/// A constant that the program passes by name. Borrowed: valid as long as the executable.
typedef struct callout_attribute {
  const char* name;  ///< NUL-terminated.
  uint32_t kind;     ///< callout_attribute_kind
  uint32_t dtype;    ///< Of the scalar or the array's elements, as in callout_buffer; 0 for strings.
  const void* data;  ///< Strings are NUL-terminated.
  uint64_t count;    ///< Elements; for strings the length without the NUL.
} callout_attribute;

/// Where the memory of a call's buffers is.
enum callout_platform {
  CALLOUT_PLATFORM_HOST = 0,
  CALLOUT_PLATFORM_CUDA = 1,  ///< On a CUDA device: the host must not touch it.
};

/// One call of a callback. Borrowed: valid until the callback returns.
typedef struct callout_call {
  size_t struct_size;             ///< sizeof(callout_call) of the core.
  uint32_t num_args;              ///< Number of `args`.
  uint32_t num_results;           ///< 0 for taps.
  const callout_buffer* args;     ///< The operands, read-only.
  const callout_buffer* results;  ///< To be filled in place; uninitialised on entry.
  int64_t run_id;                 ///< Same for all devices of one launch; 0 outside a compiled program.
  int32_t device_ordinal;         ///< XLA's; on CPU the id of the jax.Device. -1 if unknown.
  uint32_t platform;              ///< callout_platform
  void* error_context;            ///< Opaque, passed to `set_error`.
  /// Reports why the callback is about to return nonzero. `code` is a canonical status code (13 = INTERNAL).
  /// The text is copied. GIL not needed.
  void (*set_error)(void* error_context, int32_t code, const char* message, size_t length);
  const callout_attribute* attributes;  ///< Sorted by name.
  uint32_t num_attributes;              ///< Number of `attributes`.
  uint32_t reserved2;                   ///< Zero.
  void* allocator;                      ///< Opaque, passed to `allocate`.
  /// Uninitialised memory that lives until the callback returns; null if there is none. `alignment`: a power of two up
  /// to 64.
  void* (*allocate)(void* allocator, uint64_t bytes, uint64_t alignment);
  /// On a device, the CUstream that the program computes on. What the callback queues there runs after what fills the
  /// arguments and before what reads the results; the device's context is current. Null on the host.
  void* stream;
  /// What the host gave to this run (ExecuteOptions::context, callout_execute_options::context); null for nothing, for
  /// taps and under JAX. Borrowed: valid until the callback returns. Callbacks of one run may use it at once.
  void* context;
} callout_call;

/// A native callback. Returns 0, or nonzero after `call->set_error`. Must not let an exception out.
/// Runs on an XLA thread; several threads may be in it at once.
typedef int32_t (*callout_call_fn)(const callout_call* call);

/// The plain form for code that knows nothing of Callout: `ptrs` holds the data pointers of all arguments, then of all
/// results, then of the attributes sorted by name; `dims` the extents of arguments and results one after the other.
/// Returns 0, or an error code of its own.
typedef int32_t (*callout_pointers_fn)(void** ptrs, const int64_t* dims);

/// The plain form for device memory: as callout_pointers_fn, with the stream of callout_call. A function that is only
/// called on devices may be of this type wherever a callout_pointers_fn is asked for.
typedef int32_t (*callout_stream_fn)(void** ptrs, const int64_t* dims, void* stream);

/// What kind of function a callout_function has.
enum callout_function_kind {
  CALLOUT_FUNCTION_POINTERS = 1,  ///< `fn` is a callout_pointers_fn.
  CALLOUT_FUNCTION_CALL = 2,      ///< `fn` is a callout_call_fn.
};

/// What a parameter of a function is.
enum callout_parameter_kind {
  CALLOUT_PARAMETER_IN = 1,
  CALLOUT_PARAMETER_OUT = 2,
  CALLOUT_PARAMETER_ATTRIBUTE = 3,
};

/// What a function says of one of its parameters, so that callers can be checked when they are traced.
typedef struct callout_parameter {
  uint32_t kind;      ///< callout_parameter_kind
  uint32_t dtype;     ///< 0 for string attributes.
  int32_t rank;       ///< -1: any; attributes: 0 scalar, 1 array or string.
  uint32_t reserved;  ///< Zero.
  const char* name;   ///< Of an attribute; null otherwise.
} callout_parameter;

/// What a shared library exports under a callback's symbol (CALLOUT_DEFINE_CALLBACK and CALLOUT_KERNEL write it).
typedef struct callout_function {
  size_t struct_size;                   ///< sizeof(callout_function).
  uint32_t abi_version;                 ///< CALLOUT_ABI_VERSION.
  uint32_t kind;                        ///< callout_function_kind
  void (*fn)(void);                     ///< The function, cast.
  const callout_parameter* parameters;  ///< Null: not told.
  uint32_t num_parameters;              ///< Number of `parameters`.
  uint32_t reserved;                    ///< Zero.
} callout_function;

/// A function and what it works on, handed over as one: a callback in whatever language, of which its caller knows
/// nothing else. Copies are the same closure; one of them, the owner's, is destroyed.
typedef struct callout_closure {
  size_t struct_size;  ///< sizeof(callout_closure); 0 for one that was taken.
  /// As callout_call_fn, with the context. For a tap: a call without results.
  int32_t (*call)(void* context, const callout_call* call);
  void* context;  ///< What `call` and `destroy` get.
  /// Ends the context; null if there is nothing to end. Called once, by the owner, when no call is running and none
  /// will come; on any thread. Must not let an exception out.
  void (*destroy)(void* context);
} callout_closure;

/// Hands the closure over: `from` is empty afterwards, and whoever gets the result owns it. Not thread-safe.
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
  /// Unbinds `name`; programs already compiled keep what they were bound to. Thread-safe. GIL not needed.
  int32_t (*unregister)(const char* name, char* error, size_t error_size);
} callout_api;

/// Returns the table, or null if this core does not speak `abi_version`. Thread-safe.
__attribute__((visibility("default"))) const callout_api* callout_get_api(uint32_t abi_version);

#ifdef __cplusplus
}  // extern "C"
#endif
