// SPDX-License-Identifier: Apache-2.0
#include "core/frame/elements.h"

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "callout/dtype.h"
#include "callout/elements.h"
#include "core/base/small_buffer.h"

namespace callout {

int BitWidth(DType dtype) { return internal::RowOf(dtype).bits; }
DTypeKind KindOf(DType dtype) { return internal::RowOf(dtype).kind; }
std::string_view ShortName(DType dtype) { return internal::RowOf(dtype).short_name; }
std::string_view NumpyName(DType dtype) { return internal::RowOf(dtype).numpy_name; }

uint64_t PackedBytes(DType dtype, int64_t elements) {
  return (static_cast<uint64_t>(elements) * static_cast<uint64_t>(BitWidth(dtype)) + 7) / 8;
}

}  // namespace callout

namespace callout::internal {
namespace {

bool IsNan(FloatSpecials specials, bool negative, int exponent, int top, int mantissa, int mantissa_top) {
  switch (specials) {
    case FloatSpecials::kIeee:
      return exponent == top && mantissa != 0;
    case FloatSpecials::kNanAtTop:
      return exponent == top && mantissa == mantissa_top;
    case FloatSpecials::kNanAtNegativeZero:
      return negative && exponent == 0 && mantissa == 0;
    case FloatSpecials::kPowerOfTwo:
      return exponent == top;
    case FloatSpecials::kAllNumbers:
      break;
  }
  return false;
}

}  // namespace

float SmallFloatToFloat(const SmallFloatFormat& format, uint16_t bits) {
  const bool is_power = format.specials == FloatSpecials::kPowerOfTwo;
  const int top = (1 << format.exponent_bits) - 1;
  const int mantissa_top = (1 << format.mantissa_bits) - 1;
  const int mantissa = bits & mantissa_top;
  const int exponent = (bits >> format.mantissa_bits) & top;
  const bool negative = !is_power && ((bits >> (format.exponent_bits + format.mantissa_bits)) & 1) != 0;
  if (IsNan(format.specials, negative, exponent, top, mantissa, mantissa_top)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (format.specials == FloatSpecials::kIeee && exponent == top) return negative ? -kInfinity : kInfinity;
  const bool is_subnormal = exponent == 0 && !is_power;
  const int significand = is_subnormal ? mantissa : mantissa + (1 << format.mantissa_bits);
  const int scale = (is_subnormal ? 1 : exponent) - format.bias - format.mantissa_bits;
  const float value = std::ldexp(static_cast<float>(significand), scale);
  return negative ? -value : value;
}

}  // namespace callout::internal

float callout::SmallFloatToFloat(DType dtype, uint16_t bits) {
  const internal::DTypeRow& row = internal::RowOf(dtype);
  return row.is_small_float() ? internal::SmallFloatToFloat(row.format, bits) : std::numeric_limits<float>::quiet_NaN();
}

namespace callout {

void Unpack(DType dtype, const void* packed, int64_t elements, uint8_t* out, HighBits high_bits) {
  const int bits = BitWidth(dtype);
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const bool extend = high_bits == HighBits::kSign && KindOf(dtype) == DTypeKind::kSigned;
  const uint8_t sign = extend ? static_cast<uint8_t>(1 << (bits - 1)) : uint8_t{0};
  const auto* bytes = static_cast<const uint8_t*>(packed);
  for (int64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<uint8_t>((bytes[i / per_byte] >> ((i % per_byte) * bits)) & mask);
    out[i] = (value & sign) != 0 ? static_cast<uint8_t>(value | ~mask) : value;
  }
}

void Pack(DType dtype, const uint8_t* in, int64_t elements, void* packed) {
  const int bits = BitWidth(dtype);
  const int per_byte = 8 / bits;
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  auto* bytes = static_cast<uint8_t*>(packed);
  if (elements == 0) return;  // memset must not get null
  std::memset(bytes, 0, PackedBytes(dtype, elements));
  for (int64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<uint8_t>((in[i] & mask) << ((i % per_byte) * bits));
    bytes[i / per_byte] = static_cast<uint8_t>(bytes[i / per_byte] | value);
  }
}

}  // namespace callout

namespace callout::internal {
namespace {

constexpr size_t kBytes = 1024;

template <typename Reader>
void ReadNumbers(const Reader& reader, const char* data, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<double>(reader(data, static_cast<int64_t>(i)));
}

template <typename T>
void ReadMagnitudes(const PlainElements<std::complex<T>>& reader, const char* data, size_t count, double* out) {
  for (size_t i = 0; i < count; ++i) {
    const std::complex<T> value = reader(data, static_cast<int64_t>(i));
    out[i] = std::hypot(static_cast<double>(value.real()), static_cast<double>(value.imag()));
  }
}

// ReadBfloat16 and ReadFloat16 compute what SmallFloatToFloat does, at the speed of memory.
void ReadBfloat16(const char* data, size_t count, double* out) {
  const PlainElements<uint16_t> reader;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = reader(data, static_cast<int64_t>(i));
    out[i] = static_cast<double>(std::bit_cast<float>(bits << 16));
  }
}

// Moves exponent and mantissa to their places in a float. The exponent is then off by the difference of the biases,
// which a product with a power of two corrects, for subnormal numbers, too.
void ReadFloat16(const char* data, size_t count, double* out) {
  constexpr uint32_t kInfinity = 0x7C00;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = PlainElements<uint16_t>()(data, static_cast<int64_t>(i));
    const uint32_t magnitude = bits & 0x7FFFU;
    const uint32_t not_finite = magnitude >= kInfinity ? 0x7F800000U : 0;
    const double value = static_cast<double>(std::bit_cast<float>((magnitude << 13) | not_finite)) * 0x1p112;
    out[i] = (bits & 0x8000U) != 0 ? -value : value;
  }
}

using ByteTable = std::array<double, 256>;

ByteTable MakeTable(const SmallFloatFormat& format) {
  ByteTable table;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<double>(SmallFloatToFloat(format, static_cast<uint16_t>(i)));
  }
  return table;
}

// Returns the table of a float type of at most a byte.
const ByteTable& TableOf(DType dtype) {
  static const std::array<ByteTable, kDTypeLimit>* const tables = [] {
    auto* all = new std::array<ByteTable, kDTypeLimit>;  // leaked: sinks may run until the process ends
    for (const DTypeRow& row : kDTypeRows) {
      if (row.is_small_float() && row.bits <= 8) (*all)[static_cast<size_t>(row.dtype)] = MakeTable(row.format);
    }
    return all;
  }();
  return (*tables)[static_cast<size_t>(dtype)];
}

void ReadBytesByTable(DType dtype, const char* data, size_t count, double* out) {
  const ByteTable& table = TableOf(dtype);
  const PlainElements<uint8_t> reader;
  for (size_t i = 0; i < count; ++i) out[i] = table[reader(data, static_cast<int64_t>(i))];
}

// Reads elements of whole bytes. Returns false for a type without elements.
bool ReadBytes(DType dtype, const char* data, size_t count, double* out) {
  return VisitElements(dtype, [&]<typename Reader>(const Reader& reader) {
    if constexpr (std::is_same_v<Reader, SmallFloatElements<uint8_t>>) {
      ReadBytesByTable(dtype, data, count, out);
    } else if constexpr (std::is_same_v<Reader, SmallFloatElements<uint16_t>>) {
      if (dtype == DType::kFloat16) return ReadFloat16(data, count, out);
      if (dtype == DType::kBfloat16) return ReadBfloat16(data, count, out);
      ReadNumbers(reader, data, count, out);
    } else if constexpr (requires { reader(data, 0).imag(); }) {
      ReadMagnitudes(reader, data, count, out);
    } else {
      ReadNumbers(reader, data, count, out);
    }
  });
}

}  // namespace

Status ReadDoubles(const callout_buffer& buffer, int64_t first, size_t count, double* out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  const char* data = static_cast<const char*>(buffer.data) + PackedBytes(dtype, first);
  bool is_read = false;
  if (IsSubByte(dtype)) {
    SmallBuffer<uint8_t, kBytes> unpacked(count);
    Unpack(dtype, data, static_cast<int64_t>(count), unpacked.data());
    is_read = ReadBytes(dtype, reinterpret_cast<const char*>(unpacked.data()), count, out);
  } else {
    is_read = ReadBytes(dtype, data, count, out);
  }
  return is_read ? OkStatus() : UnknownDType("read the numbers", dtype);
}

}  // namespace callout::internal
