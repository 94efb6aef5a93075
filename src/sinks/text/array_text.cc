// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "callout/dtype.h"
#include "callout/text.h"
#include "core/encoding/json.h"
#include "sinks/text/number_text.h"
#include "sinks/text/numpy_text.h"
#include "sinks/text/text.h"

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
  const double magnitude = std::abs(static_cast<double>(value));
  const double exponents_from = sizeof(T) == sizeof(float) ? kFloat32ExponentsFrom : 1e16;
  const bool with_exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= exponents_from);
  const internal::NumberText number = internal::ShortestText(std::abs(value), {.adds_zero = true}, with_exponent);
  return (std::signbit(value) ? "-" : "") + number.digits + number.rest;
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
