// SPDX-License-Identifier: Apache-2.0
#include "callout/dtype.h"

#include <array>

namespace callout {
namespace {

struct Entry {
  int bits = 0;
  std::string_view short_name = "?";
  std::string_view numpy_name = "";
};

constexpr std::array<Entry, kDTypeLimit> MakeTable() {
  std::array<Entry, kDTypeLimit> t{};
  auto set = [&t](DType dtype, int bits, std::string_view short_name, std::string_view numpy_name) {
    t[static_cast<uint32_t>(dtype)] = Entry{bits, short_name, numpy_name};
  };
  set(DType::kBool, 8, "bool", "bool");
  set(DType::kInt1, 1, "s1", "int1");
  set(DType::kInt2, 2, "s2", "int2");
  set(DType::kInt4, 4, "s4", "int4");
  set(DType::kInt8, 8, "s8", "int8");
  set(DType::kInt16, 16, "s16", "int16");
  set(DType::kInt32, 32, "s32", "int32");
  set(DType::kInt64, 64, "s64", "int64");
  set(DType::kUint1, 1, "u1", "uint1");
  set(DType::kUint2, 2, "u2", "uint2");
  set(DType::kUint4, 4, "u4", "uint4");
  set(DType::kUint8, 8, "u8", "uint8");
  set(DType::kUint16, 16, "u16", "uint16");
  set(DType::kUint32, 32, "u32", "uint32");
  set(DType::kUint64, 64, "u64", "uint64");
  set(DType::kFloat16, 16, "f16", "float16");
  set(DType::kFloat32, 32, "f32", "float32");
  set(DType::kFloat64, 64, "f64", "float64");
  set(DType::kBfloat16, 16, "bf16", "bfloat16");
  set(DType::kComplex64, 64, "c64", "complex64");
  set(DType::kComplex128, 128, "c128", "complex128");
  set(DType::kToken, 0, "token", "");
  set(DType::kFloat8E5M2, 8, "f8e5m2", "float8_e5m2");
  set(DType::kFloat8E3M4, 8, "f8e3m4", "float8_e3m4");
  set(DType::kFloat8E4M3, 8, "f8e4m3", "float8_e4m3");
  set(DType::kFloat8E4M3Fn, 8, "f8e4m3fn", "float8_e4m3fn");
  set(DType::kFloat8E4M3B11Fnuz, 8, "f8e4m3b11fnuz", "float8_e4m3b11fnuz");
  set(DType::kFloat8E5M2Fnuz, 8, "f8e5m2fnuz", "float8_e5m2fnuz");
  set(DType::kFloat8E4M3Fnuz, 8, "f8e4m3fnuz", "float8_e4m3fnuz");
  set(DType::kFloat4E2M1Fn, 4, "f4e2m1fn", "float4_e2m1fn");
  set(DType::kFloat8E8M0Fnu, 8, "f8e8m0fnu", "float8_e8m0fnu");
  return t;
}

constexpr std::array<Entry, kDTypeLimit> kTable = MakeTable();
constexpr Entry kUnknown{};

const Entry& Find(DType dtype) {
  const auto number = static_cast<uint32_t>(dtype);
  return number < kDTypeLimit ? kTable[number] : kUnknown;
}

}  // namespace

int BitWidth(DType dtype) { return Find(dtype).bits; }
std::string_view ShortName(DType dtype) { return Find(dtype).short_name; }
std::string_view NumpyName(DType dtype) { return Find(dtype).numpy_name; }

uint64_t PackedBytes(DType dtype, int64_t elements) {
  return (static_cast<uint64_t>(elements) * static_cast<uint64_t>(BitWidth(dtype)) + 7) / 8;
}

}  // namespace callout
