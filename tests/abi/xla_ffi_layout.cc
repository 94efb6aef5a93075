// SPDX-License-Identifier: Apache-2.0
//
// This file contains no test code: compiling it is the check. XLA FFI's structs as every runtime from FFI 0.2 to 0.5 lays
// them out. Numbers were read off the headers of those four and off running runtimes; what differs between them is
// declared by hand in src/frame/ffi_abi.cc.
#include <cstddef>

#include "xla/ffi/api/c_api.h"

#define OFFSET(type, field, bytes) static_assert(offsetof(type, field) == (bytes), #type "." #field)
#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)

static_assert(XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR == 3);

SIZE(XLA_FFI_CallFrame, 168);
OFFSET(XLA_FFI_CallFrame, extension_start, 8);
OFFSET(XLA_FFI_CallFrame, api, 16);
OFFSET(XLA_FFI_CallFrame, ctx, 24);
OFFSET(XLA_FFI_CallFrame, stage, 32);
OFFSET(XLA_FFI_CallFrame, args, 40);
OFFSET(XLA_FFI_CallFrame, rets, 80);
OFFSET(XLA_FFI_CallFrame, attrs, 120 - 0);
OFFSET(XLA_FFI_CallFrame, future, 160 + 8);

SIZE(XLA_FFI_Args, 40);
OFFSET(XLA_FFI_Args, size, 16);
OFFSET(XLA_FFI_Args, types, 24);
OFFSET(XLA_FFI_Args, args, 32);
SIZE(XLA_FFI_Rets, 40);
OFFSET(XLA_FFI_Rets, size, 16);
OFFSET(XLA_FFI_Rets, rets, 32);
SIZE(XLA_FFI_Attrs, 48);
OFFSET(XLA_FFI_Attrs, size, 16);
OFFSET(XLA_FFI_Attrs, types, 24);
OFFSET(XLA_FFI_Attrs, names, 32);
OFFSET(XLA_FFI_Attrs, attrs, 40);
