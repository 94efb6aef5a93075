// SPDX-License-Identifier: Apache-2.0
#include "text/numpy_numbers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

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

// The shortest digits of a number: [-]d.ddd x 10^exponent.
struct Digits {
  bool negative;
  char digits[32];
  size_t count = 0;
  int exponent;

  std::string_view view() const { return {digits, count}; }
};

// Of "-1.25e-07".
Digits ParseScientific(std::string_view text) {
  Digits out;
  out.negative = text.front() == '-';
  const size_t e = text.find('e');
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') out.digits[out.count++] = c;
  }
  out.exponent = 0;
  const size_t first = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + first, text.data() + text.size(), out.exponent);
  return out;
}

template <typename T>
Digits ShortestDigits(T value) {
  char text[48];
  const char* end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr;
  return ParseScientific({text, static_cast<size_t>(end - text)});
}

// With `fraction` digits behind the point.
Digits RoundedDigits(double value, size_t fraction) {
  char text[48];
  constexpr auto kFormat = std::chars_format::scientific;
  const char* end = std::to_chars(text, text + sizeof(text), value, kFormat, static_cast<int>(fraction)).ptr;
  return ParseScientific({text, static_cast<size_t>(end - text)});
}

}  // namespace

template <typename T>
FloatParts ScientificParts(T value, size_t min_fraction, size_t max_fraction) {
  Digits digits = ShortestDigits(value);
  const size_t fraction = std::clamp(digits.count - 1, min_fraction, max_fraction);
  if (fraction != digits.count - 1) digits = RoundedDigits(static_cast<double>(value), fraction);
  PartsBuilder parts;
  if (digits.negative) parts.Add("-");
  parts.Add(digits.view().substr(0, 1));
  parts.AddPoint();
  parts.Add(digits.view().substr(1));
  parts.set_exponent(digits.exponent);
  return min_fraction == 0 ? parts.WithoutZeros() : parts.All();
}

// For numbers below 1e16, which are all that NumPy prints in this way by default.
template <typename T>
FloatParts PositionalParts(T value) {
  const Digits shortest = ShortestDigits(value);
  const int behind = static_cast<int>(shortest.count) - 1 - shortest.exponent;
  const int fraction = std::clamp(behind, 0, static_cast<int>(kPrecision));
  // As many digits of the exact value as the shortest text has are that text.
  char text[48];
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
