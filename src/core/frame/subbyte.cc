// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "callout/elements.h"

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
  if (elements == 0) return;  // memset must not be given null
  std::memset(bytes, 0, PackedBytes(dtype, elements));
  for (int64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<uint8_t>((in[i] & mask) << ((i % per_byte) * bits));
    bytes[i / per_byte] = static_cast<uint8_t>(bytes[i / per_byte] | value);
  }
}

}  // namespace callout
