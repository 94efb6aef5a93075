// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/formatted_array.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>
#include <vector>

#include "callout/dtype.h"
#include "callout/elements.h"
#include "callout/text.h"
#include "core/encoding/json.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"
#include "sinks/text/numpy_numbers.h"
#include "sinks/text/numpy_text.h"
#include "sinks/text/text.h"

namespace callout::internal {
namespace {

template <typename T>
void AppendElement(T value, const FormatSpec& spec, std::string& out) {
  if constexpr (std::is_same_v<T, bool>) {
    AppendFormatted(int64_t{value}, spec, out);
  } else if constexpr (std::is_integral_v<T>) {
    AppendFormatted(std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>{value}, spec, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendFormatted(static_cast<double>(value), spec, out);
  } else {
    AppendFormatted(std::complex<double>(value), spec, out);
  }
}

// Appends a scalar that NumPy's `str` writes otherwise than an element of an array.
bool AppendPlainScalar(const callout_buffer& buffer, std::string& out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  if (BitWidth(dtype) <= 8) return false;
  bool is_done = false;
  (void)VisitElements(dtype, [&](const auto& reader) {
    if constexpr (!std::is_integral_v<decltype(reader(buffer.data, 0))>) {
      AppendShortest(reader(buffer.data, 0), out);
      is_done = true;
    }
  });
  return is_done;
}

}  // namespace

Result<FormatKind> FormatKindOf(DType dtype) {
  switch (RowOf(dtype).kind) {
    case DTypeKind::kBool:
      return FormatKind::kBool;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return FormatKind::kInteger;
    case DTypeKind::kFloat:
      return FormatKind::kFloat;
    case DTypeKind::kComplex:
      return FormatKind::kComplex;
    case DTypeKind::kToken:
    case DTypeKind::kUnknown:
      break;
  }
  return UnknownDType("write the text", dtype);
}

Status AppendFormattedArray(const callout_buffer& buffer, const FormatSpec& spec, std::string& out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  callout_buffer whole_bytes = buffer;
  std::vector<uint8_t> unpacked;
  if (IsSubByte(dtype)) {
    unpacked.resize(static_cast<size_t>(ElementCount(buffer)));
    Unpack(dtype, buffer.data, ElementCount(buffer), unpacked.data());
    whole_bytes.data = unpacked.data();
    whole_bytes.size_bytes = unpacked.size();
  }
  const bool is_known = VisitElements(dtype, [&](const auto& reader) {
    const auto append = [&](const callout_buffer& shown, size_t i, std::string& to) {
      AppendElement(reader(shown.data, static_cast<int64_t>(i)), spec, to);
    };
    AppendNumpyWords(whole_bytes, NumpyTextOptions().threshold, append, out);
  });
  return is_known ? OkStatus() : UnknownDType("write the text", dtype);
}

Status AppendPlainArray(const callout_buffer& buffer, std::string& out) {
  if (buffer.rank == 0 && AppendPlainScalar(buffer, out)) return OkStatus();
  return AppendNumpyText(buffer, {}, out) ? OkStatus() : AppendArray(buffer, TextStyle::kPrint, out);
}

}  // namespace callout::internal

namespace callout {
namespace {

constexpr float kFloat32ExponentsFrom = 1e6F;  // NumPy 2.3 and later.

// Returns the text that NumPy prints for scalars and for arrays without dimensions: all digits, and ".0" for whole
// numbers.
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
