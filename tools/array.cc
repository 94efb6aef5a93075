// SPDX-License-Identifier: Apache-2.0
#include "array.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "frame/subbyte.h"
#include "text/numpy_text.h"
#include "text/text.h"

namespace callout::tools {

size_t ElementSize(DType dtype) { return static_cast<size_t>((BitWidth(dtype) + 7) / 8); }

Result<int64_t> ElementCount(const pjrt::ArrayType& type) {
  constexpr int64_t kMaxBytes = int64_t{1} << 46;
  int64_t elements = 1;
  bool is_empty = false;
  for (const int64_t extent : type.dims) {
    is_empty = is_empty || extent == 0;
    if (extent < 0 || (extent > 0 && elements > kMaxBytes / 16 / extent)) {
      return InvalidArgument("callout: an array cannot be " + type.ToString());
    }
    if (extent > 0) elements *= extent;
  }
  return is_empty ? 0 : elements;
}

std::string Listed(const std::vector<pjrt::ArrayType>& types) {
  std::string text;
  for (const pjrt::ArrayType& type : types) text += (text.empty() ? "" : ", ") + type.ToString();
  return "(" + text + ")";
}

Array MakeArray(pjrt::ArrayType type) {
  size_t bytes = ElementSize(type.dtype);
  for (const int64_t extent : type.dims) bytes *= static_cast<size_t>(extent);
  return {std::move(type), std::vector<std::byte>(bytes)};
}

namespace {

constexpr float kFloat32ExponentsFrom = 1e6F;  // NumPy 2.3 and later

// As NumPy prints scalars, and arrays without dimensions: all digits, and ".0" for whole numbers.
template <typename T>
std::string ScalarText(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  std::string shortest(text, std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr);
  const double magnitude = std::abs(static_cast<double>(value));
  const double exponents_from = sizeof(T) == sizeof(float) ? kFloat32ExponentsFrom : 1e16;
  if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= exponents_from)) return shortest;
  // The digits of "-1.25e+03", with zeros where they do not reach.
  const size_t e = shortest.find('e');
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const int exponent = std::stoi(shortest.substr(e + 1));
  if (exponent < 0) digits.insert(0, static_cast<size_t>(-exponent), '0');
  const auto before = static_cast<size_t>(std::max(exponent, 0)) + 1;
  if (digits.size() < before + 1) digits.append(before + 1 - digits.size(), '0');
  return (std::signbit(value) ? "-" : "") + digits.substr(0, before) + "." + digits.substr(before);
}

}  // namespace

namespace {

// `bytes` is where the elements are put that have less than a byte. Borrowed: of both.
callout_buffer AsBuffer(const Array& array, std::vector<std::byte>& bytes) {
  callout_buffer buffer = {};
  buffer.dtype = static_cast<uint32_t>(array.type.dtype);
  buffer.rank = static_cast<uint32_t>(array.type.dims.size());
  buffer.dims = array.type.dims.data();
  bytes = array.bytes;
  if (internal::IsSubByte(array.type.dtype)) {
    const auto elements = static_cast<int64_t>(array.bytes.size());
    internal::Pack(array.type.dtype, reinterpret_cast<const uint8_t*>(array.bytes.data()), elements, bytes.data());
    bytes.resize(PackedBytes(array.type.dtype, elements));
  }
  buffer.data = bytes.data();
  buffer.size_bytes = bytes.size();
  return buffer;
}

}  // namespace

void AppendJson(const Array& array, std::string& text) {
  std::vector<std::byte> bytes;
  const Status status = internal::AppendArray(AsBuffer(array, bytes), internal::TextStyle::kJson, text);
  CALLOUT_CHECK(status.ok(), "no array has such elements");
}

std::string ToText(const Array& array) {
  if (array.type.dims.empty() && array.type.dtype == DType::kFloat32) return ScalarText<float>(array.bytes.data());
  if (array.type.dims.empty() && array.type.dtype == DType::kFloat64) return ScalarText<double>(array.bytes.data());
  std::vector<std::byte> bytes;
  const callout_buffer buffer = AsBuffer(array, bytes);
  std::string text;
  if (!internal::AppendNumpyText(buffer, {.float32_exponents_from = kFloat32ExponentsFrom}, text)) {
    CALLOUT_CHECK(internal::AppendArray(buffer, internal::TextStyle::kPrint, text).ok(), "no array has such elements");
  }
  return text;
}

}  // namespace callout::tools
