// SPDX-License-Identifier: Apache-2.0
//
// The text of numbers: in parts, for whoever groups digits and pads them, by Python's rules for floats
// (PyOS_double_to_string); and as NumPy prints them in arrays.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace callout::internal {

/// [-]d.ddd x 10^exponent. Borrowed: valid as long as the text that it was read from.
struct Decimal {
  bool negative;
  std::string_view first;     ///< One digit.
  std::string_view fraction;  ///< Those behind it, none or more.
  int exponent;
};

/// `text` is what std::to_chars writes of a finite number in scientific format: "-1.25e-07".
Decimal ReadScientific(std::string_view text);

struct NumberText {
  bool negative = false;
  std::string_view prefix;  ///< "0x"
  std::string digits;       ///< Before the point; none for nan and inf.
  std::string rest;         ///< From the point on, or "nan", or a character.
};

struct FloatLayout {
  bool upper = false;        ///< 'E'
  bool keeps_point = false;  ///< With nothing behind it; and 'g' its zeros.
  bool adds_zero = false;    ///< Behind the point, where nothing else is.
};

/// The fewest digits that read back as the same number, with an exponent outside of 1e-4 ... 1e16.
template <typename T>
NumberText ShortestText(T magnitude, const FloatLayout& layout);
/// The same with an exponent or without, as told.
template <typename T>
NumberText ShortestText(T magnitude, const FloatLayout& layout, bool with_exponent);
/// 'e': `precision` digits behind the point.
NumberText ScientificText(double magnitude, int precision, const FloatLayout& layout);
/// 'g': `precision` digits in all.
NumberText GeneralText(double magnitude, int precision, const FloatLayout& layout);
/// 'f': `precision` digits behind the point.
NumberText FixedText(double magnitude, int precision, const FloatLayout& layout);

// Numbers as NumPy prints them in arrays. A format is chosen for all elements together, in three steps: Look at every
// element, Choose, Measure every element, Finish; then Append writes each of them in `width()` characters.

template <typename T>
class IntegerText {
 public:
  explicit IntegerText(T value) : end_(std::to_chars(text_, text_ + sizeof(text_), value).ptr) {}
  std::string_view view() const { return {text_, static_cast<size_t>(end_ - text_)}; }

 private:
  char text_[24];
  const char* end_;
};

/// A finite number's text, without its exponent if it has one: "-12.345".
struct FloatParts {
  char text[48];
  size_t size = 0;
  size_t point = 0;  ///< Where '.' is.
  int exponent = 0;

  size_t fraction() const { return size - point - 1; }
  std::string_view view() const { return {text, size}; }
};

inline constexpr size_t kPrecision = 8;  ///< Digits behind the point, at most.

/// The shortest digits that read back as the same number; or those of the exact value, rounded, where that makes more
/// than kPrecision behind the point, or more than `max_fraction`, or less than `min_fraction`.
template <typename T>
FloatParts PositionalParts(T value);
template <typename T>
FloatParts ScientificParts(T value, size_t min_fraction, size_t max_fraction);

/// NumPy's FloatingFormat (numpy/_core/arrayprint.py) with its default options.
template <typename T>
class FloatFormat {
 public:
  explicit FloatFormat(T exponents_from) : exponents_from_(exponents_from) {}

  void Look(T value) {
    if (!std::isfinite(value)) {
      has_nan_ |= std::isnan(value);
      has_infinity_ |= std::isinf(value);
      has_negative_infinity_ |= std::isinf(value) && value < 0;
    } else if (value != 0) {
      low_ = std::min(low_, std::abs(value));
      high_ = std::max(high_, std::abs(value));
    }
  }
  void Choose() {
    const bool has_values = high_ > 0;
    exponents_ = has_values && (high_ >= exponents_from_ || low_ < static_cast<T>(0.0001) || high_ / low_ > T{1000});
  }
  void Measure(T value) {
    if (!std::isfinite(value)) return;
    const FloatParts parts = exponents_ ? ScientificParts(value, 0, kPrecision) : PositionalParts(value);
    before_ = std::max(before_, parts.point);
    after_ = std::max(after_, parts.fraction());
    if (exponents_) exponent_digits_ = std::max<size_t>(exponent_digits_, std::abs(parts.exponent) >= 100 ? 3 : 2);
  }
  void Finish();
  size_t width() const { return before_ + 1 + after_ + (exponents_ ? 2 + exponent_digits_ : 0); }
  void Append(T value, std::string& out) const;

 private:
  const T exponents_from_;
  T low_ = std::numeric_limits<T>::infinity();
  T high_ = 0;
  bool has_nan_ = false;
  bool has_infinity_ = false;
  bool has_negative_infinity_ = false;
  bool exponents_ = false;
  size_t before_ = 0;  ///< Characters before the point.
  size_t after_ = 0;   ///< Digits behind it.
  size_t exponent_digits_ = 0;
};

extern template class FloatFormat<float>;
extern template class FloatFormat<double>;

}  // namespace callout::internal
