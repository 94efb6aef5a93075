// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "callout/dtype.h"
#include "callout/text.h"
#include "encoding/json.h"
#include "text/numpy_text.h"
#include "text/text.h"

namespace callout {
namespace {

constexpr float kFloat32ExponentsFrom = 1e6F;  // NumPy 2.3 and later

// As NumPy prints scalars, and arrays without dimensions: all digits, and ".0" for whole numbers.
template <typename T>
std::string ScalarText(const void* data) {
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

Result<std::string> ArrayText(const callout_buffer& buffer) {
  if (buffer.rank == 0 && buffer.dtype == static_cast<uint32_t>(DType::kFloat32)) return ScalarText<float>(buffer.data);
  if (buffer.rank == 0 && buffer.dtype == static_cast<uint32_t>(DType::kFloat64)) {
    return ScalarText<double>(buffer.data);
  }
  std::string text;
  if (!internal::AppendNumpyText(buffer, {.float32_exponents_from = kFloat32ExponentsFrom}, text)) {
    CALLOUT_RETURN_IF_ERROR(internal::AppendArray(buffer, internal::TextStyle::kPrint, text));
  }
  return text;
}

Status AppendJson(const callout_buffer& buffer, std::string& out) {
  return internal::AppendArray(buffer, internal::TextStyle::kJson, out);
}

void AppendJson(std::string_view text, std::string& out) { internal::AppendJsonString(text, out); }

void AppendJson(double number, std::string& out) { internal::AppendNumber(number, out); }

}  // namespace callout
