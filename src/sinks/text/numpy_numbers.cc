// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/numpy_numbers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sinks/text/number_text.h"

namespace callout::internal {
namespace {

class PartsBuilder {
 public:
  void Add(std::string_view text) {
    std::memcpy(parts_.text + parts_.size, text.data(), text.size());
    parts_.size += text.size();
  }
  void AddPoint() {
    parts_.point = parts_.size;
    parts_.text[parts_.size++] = '.';
  }
  void set_exponent(int exponent) { parts_.exponent = exponent; }
  FloatParts All() const { return parts_; }
  /// Without those at the end.
  FloatParts WithoutZeros() {
    while (parts_.text[parts_.size - 1] == '0' && parts_.size > parts_.point + 1) --parts_.size;
    return parts_;
  }

 private:
  FloatParts parts_;
};

using Text = char[48];

// Both are valid as long as `text`.
template <typename T>
Decimal Shortest(T value, Text& text) {
  const char* end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr;
  return ReadScientific({text, static_cast<size_t>(end - text)});
}

// With `fraction` digits behind the point.
Decimal Rounded(double value, size_t fraction, Text& text) {
  constexpr auto kFormat = std::chars_format::scientific;
  const char* end = std::to_chars(text, text + sizeof(text), value, kFormat, static_cast<int>(fraction)).ptr;
  return ReadScientific({text, static_cast<size_t>(end - text)});
}

}  // namespace

template <typename T>
FloatParts ScientificParts(T value, size_t min_fraction, size_t max_fraction) {
  Text text;
  Decimal number = Shortest(value, text);
  const size_t fraction = std::clamp(number.fraction.size(), min_fraction, max_fraction);
  if (fraction != number.fraction.size()) number = Rounded(static_cast<double>(value), fraction, text);
  PartsBuilder parts;
  if (number.negative) parts.Add("-");
  parts.Add(number.first);
  parts.AddPoint();
  parts.Add(number.fraction);
  parts.set_exponent(number.exponent);
  return min_fraction == 0 ? parts.WithoutZeros() : parts.All();
}

// For numbers below 1e16, which are all that NumPy prints in this way by default.
template <typename T>
FloatParts PositionalParts(T value) {
  Text text;
  const Decimal shortest = Shortest(value, text);
  const int behind = static_cast<int>(shortest.fraction.size()) - shortest.exponent;
  const int fraction = std::clamp(behind, 0, static_cast<int>(kPrecision));
  // As many digits of the exact value as the shortest text has are that text.
  constexpr auto kFormat = std::chars_format::fixed;
  const char* end = std::to_chars(text, text + sizeof(text), static_cast<double>(value), kFormat, fraction).ptr;
  const std::string_view fixed(text, static_cast<size_t>(end - text));
  const size_t point = std::min(fixed.find('.'), fixed.size());
  PartsBuilder parts;
  parts.Add(fixed.substr(0, point));
  parts.AddPoint();
  if (point < fixed.size()) parts.Add(fixed.substr(point + 1));
  return parts.WithoutZeros();
}

template <typename T>
void FloatFormat<T>::Finish() {
  // NumPy widens the part in front of the point until its names for what is no number fit.
  const size_t behind = width() - before_;
  const size_t infinity = has_negative_infinity_ ? 4 : 3;
  const size_t longest = has_nan_ || has_infinity_ ? infinity : 0;
  if (longest > behind) before_ = std::max(before_, longest - behind);
}

template <typename T>
void FloatFormat<T>::Append(T value, std::string& out) const {
  if (!std::isfinite(value)) {
    const std::string_view name = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    out.append(width() - name.size(), ' ').append(name);
    return;
  }
  const FloatParts parts = exponents_ ? ScientificParts(value, after_, after_) : PositionalParts(value);
  out.append(before_ - parts.point, ' ').append(parts.view());
  if (!exponents_) {
    out.append(after_ - parts.fraction(), ' ');
    return;
  }
  const IntegerText<int> exponent(std::abs(parts.exponent));
  out.append(1, 'e').append(1, parts.exponent < 0 ? '-' : '+');
  out.append(exponent_digits_ - exponent.view().size(), '0').append(exponent.view());
}

template FloatParts PositionalParts<float>(float);
template FloatParts PositionalParts<double>(double);
template FloatParts ScientificParts<float>(float, size_t, size_t);
template FloatParts ScientificParts<double>(double, size_t, size_t);
template class FloatFormat<float>;
template class FloatFormat<double>;

}  // namespace callout::internal
