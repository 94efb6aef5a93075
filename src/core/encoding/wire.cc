// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/wire.h"

#include <bit>
#include <cstring>

namespace callout::internal {
namespace {

enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr unsigned kMaxVarintBits = 63;
static_assert(std::endian::native == std::endian::little, "as the format stores numbers of 4 and 8 bytes");

// Takes a varint from the front of `rest`; nullopt if there is none.
std::optional<uint64_t> TakeVarint(std::string_view& rest) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift <= kMaxVarintBits && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80U) return value;
  }
  return std::nullopt;
}

}  // namespace

void WireWriter::AddNumber(int field, uint64_t value) {
  AppendVarint(static_cast<uint64_t>(field) << 3U | kVarint);
  AppendVarint(value);
}

void WireWriter::AddFloat(int field, float value) {
  AppendVarint(static_cast<uint64_t>(field) << 3U | kFixed32);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void WireWriter::AddDouble(int field, double value) {
  AppendVarint(static_cast<uint64_t>(field) << 3U | kFixed64);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void WireWriter::AddMessage(int field, std::string_view bytes) {
  AppendVarint(static_cast<uint64_t>(field) << 3U | kBytes);
  AppendVarint(bytes.size());
  bytes_ += bytes;
}

void WireWriter::AppendVarint(uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
  bytes_ += static_cast<char>(value);
}

std::optional<WireField> WireReader::Bad() {
  ok_ = false;
  rest_ = {};
  return std::nullopt;
}

bool WireReader::TakeFixed(size_t bytes, uint64_t& value) {
  if (rest_.size() < bytes) return false;
  std::memcpy(&value, rest_.data(), bytes);
  rest_.remove_prefix(bytes);
  return true;
}

std::optional<WireField> WireReader::Next() {
  if (rest_.empty()) return std::nullopt;
  const std::optional<uint64_t> tag = TakeVarint(rest_);
  if (!tag || *tag >> 3U > INT32_MAX) return Bad();
  WireField field;
  field.number = static_cast<int>(*tag >> 3U);
  switch (*tag & 7U) {
    case kVarint: {
      const std::optional<uint64_t> value = TakeVarint(rest_);
      if (!value) return Bad();
      field.value = *value;
      return field;
    }
    case kBytes: {
      const std::optional<uint64_t> size = TakeVarint(rest_);
      if (!size || *size > rest_.size()) return Bad();
      field.is_bytes = true;
      field.bytes = rest_.substr(0, *size);
      rest_.remove_prefix(*size);
      return field;
    }
    case kFixed64:
      return TakeFixed(8, field.value) ? field : Bad();
    case kFixed32:
      return TakeFixed(4, field.value) ? field : Bad();
    default:
      return Bad();
  }
}

bool AppendNumbers(const WireField& field, std::vector<int64_t>& numbers) {
  if (!field.is_bytes) {
    numbers.push_back(static_cast<int64_t>(field.value));
    return true;
  }
  for (std::string_view rest = field.bytes; !rest.empty();) {
    const std::optional<uint64_t> value = TakeVarint(rest);
    if (!value) return false;
    numbers.push_back(static_cast<int64_t>(*value));
  }
  return true;
}

}  // namespace callout::internal
