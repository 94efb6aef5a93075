// SPDX-License-Identifier: Apache-2.0
#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "callout/elements.h"
#include "callout/text.h"
#include "core/base/cat.h"

namespace callout::tools {
namespace {

using Number = std::complex<long double>;  // Represents all 64-bit integers.

template <typename T>
long double LoadAs(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return static_cast<long double>(value);
}

long double LoadInteger(DType dtype, const std::byte* data) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, ElementSize(dtype));
  const int unused = 64 - BitWidth(dtype);  // The unused bits do not count.
  if (KindOf(dtype) == DTypeKind::kSigned)
    return static_cast<long double>(static_cast<int64_t>(bits << unused) >> unused);
  return static_cast<long double>(bits << unused >> unused);
}

Number NumberAt(DType dtype, const std::byte* data) {
  const int bits = BitWidth(dtype);
  switch (KindOf(dtype)) {
    case DTypeKind::kComplex:
      return bits == 64 ? Number{LoadAs<float>(data), LoadAs<float>(data + sizeof(float))}
                        : Number{LoadAs<double>(data), LoadAs<double>(data + sizeof(double))};
    case DTypeKind::kFloat:
      if (bits == 32) return LoadAs<float>(data);
      if (bits == 64) return LoadAs<double>(data);
      return SmallFloatToFloat(dtype, static_cast<uint16_t>(LoadInteger(dtype, data)));
    default:
      return LoadInteger(dtype, data);
  }
}

bool IsNan(const Number& number) { return std::isnan(number.real()) || std::isnan(number.imag()); }

long double Magnitude(const Number& number) { return std::hypot(number.real(), number.imag()); }

// Returns infinity if exactly one number is NaN, or if the numbers are different infinities.
long double ErrorOf(const Number& expected, const Number& got) {
  if (expected == got || (IsNan(expected) && IsNan(got))) return 0;
  const long double error = Magnitude(got - expected);
  return std::isnan(error) ? std::numeric_limits<long double>::infinity() : error;
}

// Returns the index of the element in row-major order.
std::vector<int64_t> IndexOf(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0; element /= dims[d]) index[d] = element % dims[d];
  return index;
}

std::string ElementText(const Array& array, int64_t element) {
  const size_t size = ElementSize(array.type.dtype);
  const std::byte* begin = array.bytes.data() + static_cast<size_t>(element) * size;
  std::string text;
  AppendJson(Array{{array.type.dtype, {}}, {begin, begin + size}}, text);
  return text;
}

std::string IndexText(const std::vector<int64_t>& index) { return internal::Cat("[", internal::Join(index, ","), "]"); }

std::string ShortNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", number);
  return text;
}

// JSON has no infinity.
void AppendError(double number, std::string& text) {
  if (!std::isfinite(number)) {
    text += "\"Infinity\"";
  } else {
    callout::AppendJson(number, text);
  }
}

void AppendElements(const Comparison& comparison, std::string& text) {
  text += internal::Cat(", \"elements\": ", comparison.elements, ", \"differing\": ", comparison.differing,
                        ", \"max_absolute_error\": ");
  AppendError(comparison.max_absolute_error, text);
  text += ", \"max_relative_error\": ";
  AppendError(comparison.max_relative_error, text);
  if (comparison.differing == 0) return;
  text += ", \"index\": " + IndexText(comparison.index) + ", \"expected\": " + comparison.expected +
          ", \"got\": " + comparison.got;
}

}  // namespace

Comparison Compare(const Array& expected, const Array& got, const Tolerances& tolerances, std::string source) {
  const DType dtype = expected.type.dtype;
  const bool is_exact = KindOf(dtype) != DTypeKind::kFloat && KindOf(dtype) != DTypeKind::kComplex;
  Comparison comparison;
  comparison.expected_type = expected.type;
  comparison.got_type = got.type;
  comparison.source = std::move(source);
  comparison.relative = tolerances.relative.value_or(is_exact ? 0 : 1e-5);
  comparison.absolute = tolerances.absolute.value_or(is_exact ? 0 : 1e-8);
  if (!comparison.same_type()) return comparison;
  const size_t size = ElementSize(expected.type.dtype);
  comparison.elements = static_cast<int64_t>(expected.bytes.size() / size);
  for (int64_t i = 0; i < comparison.elements; ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(&expected.bytes[at], &got.bytes[at], size) == 0) continue;
    const Number wanted = NumberAt(dtype, &expected.bytes[at]);
    const long double magnitude = Magnitude(wanted);
    const long double error = ErrorOf(wanted, NumberAt(dtype, &got.bytes[at]));
    if (error == 0) continue;
    comparison.max_absolute_error = std::max(comparison.max_absolute_error, static_cast<double>(error));
    if (magnitude != 0) {
      const auto relative = static_cast<double>(std::isfinite(error) ? error / magnitude : error);
      comparison.max_relative_error = std::max(comparison.max_relative_error, relative);
    }
    // No tolerance suffices for an infinity.
    if (std::isfinite(error) && error <= comparison.absolute + comparison.relative * magnitude) continue;
    if (comparison.differing++ > 0) continue;
    comparison.index = IndexOf(i, expected.type.dims);
    comparison.expected = ElementText(expected, i);
    comparison.got = ElementText(got, i);
  }
  comparison.equal = comparison.differing == 0;
  return comparison;
}

std::string ToText(size_t number, const Comparison& comparison) {
  const std::string what = internal::Cat("result ", number);
  if (!comparison.same_type()) {
    return what + " differs from '" + comparison.source + "': expected " + comparison.expected_type.ToString() +
           ", got " + comparison.got_type.ToString();
  }
  return internal::Cat(what, ", ", comparison.got_type.ToString(), ", differs from '", comparison.source,
                       "': ", comparison.differing, " of ", comparison.elements, " elements differ; the first at ",
                       IndexText(comparison.index), ": expected ", comparison.expected, ", got ", comparison.got,
                       "; max error ", ShortNumber(comparison.max_absolute_error), ", relative ",
                       ShortNumber(comparison.max_relative_error), " (rtol ", ShortNumber(comparison.relative),
                       ", atol ", ShortNumber(comparison.absolute), ")");
}

void AppendJson(const Comparison& comparison, std::string& text) {
  text += std::string("{\"equal\": ") + (comparison.equal ? "true" : "false") + ", \"source\": ";
  callout::AppendJson(comparison.source, text);
  text += ", \"expected_type\": \"" + comparison.expected_type.ToString() + "\", \"got_type\": \"" +
          comparison.got_type.ToString() + "\", \"rtol\": ";
  callout::AppendJson(comparison.relative, text);
  text += ", \"atol\": ";
  callout::AppendJson(comparison.absolute, text);
  if (comparison.same_type()) AppendElements(comparison, text);
  text += '}';
}

}  // namespace callout::tools
