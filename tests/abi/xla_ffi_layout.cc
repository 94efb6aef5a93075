// SPDX-License-Identifier: Apache-2.0
//
// This file contains no test code: compiling it is the check. It lists the parts of XLA FFI's structs that we rely on,
// as printed by a program that was compiled against the headers of FFI 0.3, 0.4 and 0.5 in turn: the three agree in
// every line. Parts that differ between runtimes (state arguments of 0.2, error details from 0.4 on) are declared by
// hand in src/core/frame/ffi_abi.cc.
#include <cstddef>

#include "xla/ffi/api/c_api.h"

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
// A runtime compares `struct_size` with this number. It is less than sizeof where XLA does not name the last field.
#define STRUCT_SIZE(type, bytes) static_assert(type##_STRUCT_SIZE == (bytes), #type)
#define OFFSET(type, field, bytes) static_assert(offsetof(type, field) == (bytes), #type "." #field)

static_assert(XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR == 3,
              "read the layouts again before you move to another header");

SIZE(XLA_FFI_CallFrame, 176);
STRUCT_SIZE(XLA_FFI_CallFrame, 168);
OFFSET(XLA_FFI_CallFrame, extension_start, 8);
OFFSET(XLA_FFI_CallFrame, api, 16);
OFFSET(XLA_FFI_CallFrame, ctx, 24);
OFFSET(XLA_FFI_CallFrame, stage, 32);
OFFSET(XLA_FFI_CallFrame, args, 40);
OFFSET(XLA_FFI_CallFrame, rets, 80);
OFFSET(XLA_FFI_CallFrame, attrs, 120);
OFFSET(XLA_FFI_CallFrame, future, 168);

SIZE(XLA_FFI_Args, 40);
OFFSET(XLA_FFI_Args, size, 16);
OFFSET(XLA_FFI_Args, types, 24);
OFFSET(XLA_FFI_Args, args, 32);

SIZE(XLA_FFI_Rets, 40);
OFFSET(XLA_FFI_Rets, size, 16);
OFFSET(XLA_FFI_Rets, types, 24);
OFFSET(XLA_FFI_Rets, rets, 32);

SIZE(XLA_FFI_Attrs, 48);
OFFSET(XLA_FFI_Attrs, size, 16);
OFFSET(XLA_FFI_Attrs, types, 24);
OFFSET(XLA_FFI_Attrs, names, 32);
OFFSET(XLA_FFI_Attrs, attrs, 40);

SIZE(XLA_FFI_Buffer, 48);
OFFSET(XLA_FFI_Buffer, dtype, 16);
OFFSET(XLA_FFI_Buffer, data, 24);
OFFSET(XLA_FFI_Buffer, rank, 32);
OFFSET(XLA_FFI_Buffer, dims, 40);

SIZE(XLA_FFI_ByteSpan, 16);
OFFSET(XLA_FFI_ByteSpan, ptr, 0);
OFFSET(XLA_FFI_ByteSpan, len, 8);

SIZE(XLA_FFI_Scalar, 16);
OFFSET(XLA_FFI_Scalar, dtype, 0);
OFFSET(XLA_FFI_Scalar, value, 8);

SIZE(XLA_FFI_TypeId, 8);

SIZE(XLA_FFI_TypeInfo, 24);
OFFSET(XLA_FFI_TypeInfo, deleter, 16);

SIZE(XLA_FFI_Api_Version, 24);
STRUCT_SIZE(XLA_FFI_Api_Version, 24);
OFFSET(XLA_FFI_Api_Version, major_version, 16);
OFFSET(XLA_FFI_Api_Version, minor_version, 20);

SIZE(XLA_FFI_Metadata, 48);
STRUCT_SIZE(XLA_FFI_Metadata, 36);
OFFSET(XLA_FFI_Metadata, api_version, 8);
OFFSET(XLA_FFI_Metadata, traits, 32);
OFFSET(XLA_FFI_Metadata, state_type_id, 40);

OFFSET(XLA_FFI_Metadata_Extension, metadata, 24);

OFFSET(XLA_FFI_Api, api_version, 16);
OFFSET(XLA_FFI_Api, XLA_FFI_Error_Create, 48);
OFFSET(XLA_FFI_Api, XLA_FFI_Error_Destroy, 64);
OFFSET(XLA_FFI_Api, XLA_FFI_Type_Register, 88);
OFFSET(XLA_FFI_Api, XLA_FFI_State_Set, 104);
OFFSET(XLA_FFI_Api, XLA_FFI_State_Get, 112);
OFFSET(XLA_FFI_Api, XLA_FFI_RunId_Get, 176);
OFFSET(XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get, 184);

STRUCT_SIZE(XLA_FFI_Error_Create_Args, 28);
OFFSET(XLA_FFI_Error_Create_Args, message, 16);
OFFSET(XLA_FFI_Error_Create_Args, errc, 24);

STRUCT_SIZE(XLA_FFI_Error_Destroy_Args, 24);
OFFSET(XLA_FFI_Error_Destroy_Args, error, 16);

STRUCT_SIZE(XLA_FFI_Type_Register_Args, 40);
OFFSET(XLA_FFI_Type_Register_Args, name, 16);
OFFSET(XLA_FFI_Type_Register_Args, type_id, 32);
OFFSET(XLA_FFI_Type_Register_Args, type_info, 40);

STRUCT_SIZE(XLA_FFI_State_Set_Args, 48);
OFFSET(XLA_FFI_State_Set_Args, ctx, 16);
OFFSET(XLA_FFI_State_Set_Args, stage, 24);
OFFSET(XLA_FFI_State_Set_Args, type_id, 32);
OFFSET(XLA_FFI_State_Set_Args, state, 40);

STRUCT_SIZE(XLA_FFI_State_Get_Args, 48);
OFFSET(XLA_FFI_State_Get_Args, ctx, 16);
OFFSET(XLA_FFI_State_Get_Args, stage, 24);
OFFSET(XLA_FFI_State_Get_Args, type_id, 32);
OFFSET(XLA_FFI_State_Get_Args, state, 40);

STRUCT_SIZE(XLA_FFI_RunId_Get_Args, 32);
OFFSET(XLA_FFI_RunId_Get_Args, run_id, 24);

STRUCT_SIZE(XLA_FFI_DeviceOrdinal_Get_Args, 28);
OFFSET(XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal, 24);

SIZE(XLA_FFI_Extension_Base, 24);
OFFSET(XLA_FFI_Extension_Base, type, 8);
OFFSET(XLA_FFI_Extension_Base, next, 16);

STRUCT_SIZE(XLA_FFI_Error_GetMessage_Args, 32);
OFFSET(XLA_FFI_Error_GetMessage_Args, error, 16);
OFFSET(XLA_FFI_Error_GetMessage_Args, message, 24);

OFFSET(XLA_FFI_Api, XLA_FFI_Error_GetMessage, 56);

static_assert(XLA_FFI_Extension_Metadata == 1);
static_assert(XLA_FFI_ExecutionStage_INSTANTIATE == 0 && XLA_FFI_ExecutionStage_EXECUTE == 3);
static_assert(XLA_FFI_AttrType_ARRAY == 1 && XLA_FFI_AttrType_DICTIONARY == 2 && XLA_FFI_AttrType_SCALAR == 3 &&
              XLA_FFI_AttrType_STRING == 4);
