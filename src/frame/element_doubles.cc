// SPDX-License-Identifier: Apache-2.0
#include "frame/element_doubles.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/small_buffer.h"
#include "callout/dtype.h"
#include "frame/small_float.h"
#include "frame/subbyte.h"

namespace callout::internal {
namespace {

constexpr size_t kBytes = 1024;

template <typename T>
T Load(const char* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void ReadNumbers(const char* data, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<double>(Load<T>(data, i));
}

void ReadBooleans(const char* data, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) out[i] = Load<uint8_t>(data, i) != 0 ? 1 : 0;
}

void ReadBfloat16(const char* data, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(data, i)) << 16));
  }
}

// Moves exponent and mantissa to where float has them. The exponent is then off by the difference of the biases, which
// a product with a power of two puts right, subnormal numbers included.
void ReadFloat16(const char* data, size_t count, double* out) {
  constexpr uint32_t kInfinity = 0x7C00;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = Load<uint16_t>(data, i);
    const uint32_t magnitude = bits & 0x7FFFU;
    const uint32_t not_finite = magnitude >= kInfinity ? 0x7F800000U : 0;
    const double value = static_cast<double>(std::bit_cast<float>((magnitude << 13) | not_finite)) * 0x1p112;
    out[i] = (bits & 0x8000U) != 0 ? -value : value;
  }
}

template <typename T>
void ReadMagnitudes(const char* data, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = std::hypot(static_cast<double>(Load<T>(data, 2 * i)), static_cast<double>(Load<T>(data, 2 * i + 1)));
  }
}

using ByteTable = std::array<double, 256>;

ByteTable MakeTable(DType dtype) {
  ByteTable table;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<double>(SmallFloatToFloat(dtype, static_cast<uint16_t>(i)));
  }
  return table;
}

// Of the floats of a byte or less.
const ByteTable& TableOf(DType dtype) {
  static const std::array<ByteTable, kDTypeLimit>* const tables = [] {
    auto* all = new std::array<ByteTable, kDTypeLimit>;  // leaked: sinks may run until the process ends
    for (uint32_t i = 0; i < kDTypeLimit; ++i) (*all)[i] = MakeTable(static_cast<DType>(i));
    return all;
  }();
  return (*tables)[static_cast<size_t>(dtype)];
}

void ReadBytesByTable(DType dtype, const char* data, size_t count, double* out) {
  const ByteTable& table = TableOf(dtype);
  for (size_t i = 0; i < count; ++i) out[i] = table[Load<uint8_t>(data, i)];
}

void ReadSubBytes(DType dtype, const char* data, size_t count, double* out) {
  SmallBuffer<uint8_t, kBytes> unpacked(count);
  Unpack(dtype, data, static_cast<int64_t>(count), unpacked.data());
  const char* bytes = reinterpret_cast<const char*>(unpacked.data());
  if (dtype == DType::kFloat4E2M1Fn) return ReadBytesByTable(dtype, bytes, count, out);
  const bool is_signed = dtype == DType::kInt1 || dtype == DType::kInt2 || dtype == DType::kInt4;
  is_signed ? ReadNumbers<int8_t>(bytes, count, out) : ReadNumbers<uint8_t>(bytes, count, out);
}

}  // namespace

void ReadDoubles(const callout_buffer& buffer, int64_t first, size_t count, double* out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  const char* data = static_cast<const char*>(buffer.data) + PackedBytes(dtype, first);
  switch (dtype) {
    case DType::kBool:
      return ReadBooleans(data, count, out);
    case DType::kInt1:
    case DType::kInt2:
    case DType::kInt4:
    case DType::kUint1:
    case DType::kUint2:
    case DType::kUint4:
    case DType::kFloat4E2M1Fn:
      return ReadSubBytes(dtype, data, count, out);
    case DType::kInt8:
      return ReadNumbers<int8_t>(data, count, out);
    case DType::kInt16:
      return ReadNumbers<int16_t>(data, count, out);
    case DType::kInt32:
      return ReadNumbers<int32_t>(data, count, out);
    case DType::kInt64:
      return ReadNumbers<int64_t>(data, count, out);
    case DType::kUint8:
      return ReadNumbers<uint8_t>(data, count, out);
    case DType::kUint16:
      return ReadNumbers<uint16_t>(data, count, out);
    case DType::kUint32:
      return ReadNumbers<uint32_t>(data, count, out);
    case DType::kUint64:
      return ReadNumbers<uint64_t>(data, count, out);
    case DType::kFloat16:
      return ReadFloat16(data, count, out);
    case DType::kBfloat16:
      return ReadBfloat16(data, count, out);
    case DType::kFloat32:
      return ReadNumbers<float>(data, count, out);
    case DType::kFloat64:
      return ReadNumbers<double>(data, count, out);
    case DType::kComplex64:
      return ReadMagnitudes<float>(data, count, out);
    case DType::kComplex128:
      return ReadMagnitudes<double>(data, count, out);
    default:
      return ReadBytesByTable(dtype, data, count, out);
  }
}

}  // namespace callout::internal
