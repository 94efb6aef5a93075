// SPDX-License-Identifier: Apache-2.0
//
// The table of element types, one row for each type. CALLOUT_DTYPE_ROWS(ROW) expands to ROW(...) of every row; code
// that needs some columns defines a ROW macro that picks them. A new element type is a new row.
//
//   name    enumerator of callout::DType
//   number  XLA's PrimitiveType number (xla_data.proto)
//   xla     name in XLA FFI: XLA_FFI_DataType_F32
//   pjrt    name in PJRT: PJRT_Buffer_Type_F32; INVALID where PJRT does not have the type
//   bits    bits of one element in an XLA buffer
//   kind    enumerator of callout::DTypeKind
//   short   XLA's short name
//   numpy   NumPy's or ml_dtypes' name; "": none
//   mlir    name in StableHLO, where integers without a sign are signed ones; "": none
//   vhlo    code in the bytecode of StableHLO's portable artifacts; -1: none
//   dlpack  DLPack's DLDataTypeCode; -1: none, or another layout than XLA's
//   letter  letter of Python's struct and PEP 3118; "": none
//   format  for floats of at most 16 bits: a callout::internal::SmallFloatFormat; {} for other types
#pragma once

// clang-format off
/// Expands to ROW(...) of each element type, with the columns above.
#define CALLOUT_DTYPE_ROWS(ROW) \
  ROW(kBool, 1, PRED, PRED, 8, kBool, "bool", "bool", "i1", 0, 6, "?", {}) \
  ROW(kInt1, 30, S1, INVALID, 1, kSigned, "s1", "int1", "", -1, -1, "", {}) \
  ROW(kInt2, 26, S2, S2, 2, kSigned, "s2", "int2", "i2", 31, -1, "", {}) \
  ROW(kInt4, 21, S4, S4, 4, kSigned, "s4", "int4", "i4", 10, -1, "", {}) \
  ROW(kInt8, 2, S8, S8, 8, kSigned, "s8", "int8", "i8", 11, 0, "b", {}) \
  ROW(kInt16, 3, S16, S16, 16, kSigned, "s16", "int16", "i16", 12, 0, "h", {}) \
  ROW(kInt32, 4, S32, S32, 32, kSigned, "s32", "int32", "i32", 13, 0, "i", {}) \
  ROW(kInt64, 5, S64, S64, 64, kSigned, "s64", "int64", "i64", 14, 0, "q", {}) \
  ROW(kUint1, 31, U1, INVALID, 1, kUnsigned, "u1", "uint1", "", -1, -1, "", {}) \
  ROW(kUint2, 27, U2, U2, 2, kUnsigned, "u2", "uint2", "ui2", 32, -1, "", {}) \
  ROW(kUint4, 22, U4, U4, 4, kUnsigned, "u4", "uint4", "ui4", 15, -1, "", {}) \
  ROW(kUint8, 6, U8, U8, 8, kUnsigned, "u8", "uint8", "ui8", 16, 1, "B", {}) \
  ROW(kUint16, 7, U16, U16, 16, kUnsigned, "u16", "uint16", "ui16", 17, 1, "H", {}) \
  ROW(kUint32, 8, U32, U32, 32, kUnsigned, "u32", "uint32", "ui32", 18, 1, "I", {}) \
  ROW(kUint64, 9, U64, U64, 64, kUnsigned, "u64", "uint64", "ui64", 19, 1, "Q", {}) \
  ROW(kFloat16, 10, F16, F16, 16, kFloat, "f16", "float16", "f16", 3, 2, "e", Ieee(5, 10, 15)) \
  ROW(kFloat32, 11, F32, F32, 32, kFloat, "f32", "float32", "f32", 4, 2, "f", {}) \
  ROW(kFloat64, 12, F64, F64, 64, kFloat, "f64", "float64", "f64", 5, 2, "d", {}) \
  ROW(kBfloat16, 16, BF16, BF16, 16, kFloat, "bf16", "bfloat16", "bf16", 2, 4, "", Ieee(8, 7, 127)) \
  ROW(kComplex64, 15, C64, C64, 64, kComplex, "c64", "complex64", "complex<f32>", -1, 5, "Zf", {}) \
  ROW(kComplex128, 18, C128, C128, 128, kComplex, "c128", "complex128", "complex<f64>", -1, 5, "Zd", {}) \
  ROW(kToken, 17, TOKEN, TOKEN, 0, kToken, "token", "", "", -1, -1, "", {}) \
  ROW(kFloat8E5M2, 19, F8E5M2, F8E5M2, 8, kFloat, "f8e5m2", "float8_e5m2", "f8E5M2", 7, 12, "", Ieee(5, 2, 15)) \
  ROW(kFloat8E3M4, 29, F8E3M4, F8E3M4, 8, kFloat, "f8e3m4", "float8_e3m4", "f8E3M4", 36, 7, "", Ieee(3, 4, 3)) \
  ROW(kFloat8E4M3, 28, F8E4M3, F8E4M3, 8, kFloat, "f8e4m3", "float8_e4m3", "f8E4M3", 35, 8, "", Ieee(4, 3, 7)) \
  ROW(kFloat8E4M3Fn, 20, F8E4M3FN, F8E4M3FN, 8, kFloat, "f8e4m3fn", "float8_e4m3fn", "f8E4M3FN", 6, 10, "", NanAtTop(4, 3, 7)) \
  ROW(kFloat8E4M3B11Fnuz, 23, F8E4M3B11FNUZ, F8E4M3B11FNUZ, 8, kFloat, "f8e4m3b11fnuz", "float8_e4m3b11fnuz", "f8E4M3B11FNUZ", 29, 9, "", NanAtNegativeZero(4, 3, 11)) \
  ROW(kFloat8E5M2Fnuz, 24, F8E5M2FNUZ, F8E5M2FNUZ, 8, kFloat, "f8e5m2fnuz", "float8_e5m2fnuz", "f8E5M2FNUZ", 28, 13, "", NanAtNegativeZero(5, 2, 16)) \
  ROW(kFloat8E4M3Fnuz, 25, F8E4M3FNUZ, F8E4M3FNUZ, 8, kFloat, "f8e4m3fnuz", "float8_e4m3fnuz", "f8E4M3FNUZ", 27, 11, "", NanAtNegativeZero(4, 3, 8)) \
  ROW(kFloat4E2M1Fn, 32, F4E2M1FN, F4E2M1FN, 4, kFloat, "f4e2m1fn", "float4_e2m1fn", "f4E2M1FN", 37, -1, "", AllNumbers(2, 1, 1)) \
  ROW(kFloat8E8M0Fnu, 33, F8E8M0FNU, F8E8M0FNU, 8, kFloat, "f8e8m0fnu", "float8_e8m0fnu", "f8E8M0FNU", 40, 14, "", PowerOfTwo(8, 127))
// clang-format on
