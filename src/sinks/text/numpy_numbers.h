// SPDX-License-Identifier: Apache-2.0
//
// The text of numbers: by Python's rules for floats (PyOS_double_to_string), in parts that can be grouped and padded;
// and as NumPy prints numbers in arrays.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace callout::internal {

/// The number [-]d.ddd x 10^exponent. Borrowed: valid as long as the text that was read.
struct Decimal {
  bool negative;
  std::string_view first;     ///< One digit.
  std::string_view fraction;  ///< The digits after the first, if any.
  int exponent;
};

/// Reads a finite number that std::to_chars wrote in scientific format, such as "-1.25e-07".
Decimal ReadScientific(std::string_view text);

struct NumberText {
  bool negative = false;
  std::string_view prefix;  ///< "0x"
  std::string digits;       ///< The digits before the point; none for nan and inf.
  std::string rest;         ///< The point and everything after it, or "nan", or a character.
};

struct FloatLayout {
  bool upper = false;        ///< Writes 'E'.
  bool keeps_point = false;  ///< Writes the point even if no digit follows; 'g' keeps its zeros, too.
  bool adds_zero = false;    ///< Writes a zero after the point if nothing else follows.
};

/// Returns the fewest digits that read back as the same number, with an exponent outside of 1e-4 ... 1e16.
template <typename T>
NumberText ShortestText(T magnitude, const FloatLayout& layout);
/// Returns the fewest digits that read back as the same number, with or without an exponent.
template <typename T>
NumberText ShortestText(T magnitude, const FloatLayout& layout, bool with_exponent);
/// Type 'e': `precision` digits after the point.
NumberText ScientificText(double magnitude, int precision, const FloatLayout& layout);
/// Type 'g': `precision` digits in total.
NumberText GeneralText(double magnitude, int precision, const FloatLayout& layout);
/// Type 'f': `precision` digits after the point.
NumberText FixedText(double magnitude, int precision, const FloatLayout& layout);

// NumPy's formats for numbers in arrays. All elements share one format. Its steps:
// 1. Look at every element.
// 2. Choose.
// 3. Measure every element.
// 4. Finish.
// 5. Append each element in `width()` characters.

template <typename T>
class IntegerText {
 public:
  explicit IntegerText(T value) : end_(std::to_chars(text_, text_ + sizeof(text_), value).ptr) {}
  std::string_view view() const { return {text_, static_cast<size_t>(end_ - text_)}; }

 private:
  char text_[24];
  const char* end_;
};

/// The text of a finite number, without its exponent: "-12.345".
struct FloatParts {
  char text[48];
  size_t size = 0;
  size_t point = 0;  ///< The position of '.'.
  int exponent = 0;

  size_t fraction() const { return size - point - 1; }
  std::string_view view() const { return {text, size}; }
};

inline constexpr size_t kPrecision = 8;  ///< The most digits after the point.

/// These functions return the shortest digits that read back as the same number. If these digits are more than
/// kPrecision or `max_fraction`, or fewer than `min_fraction`, after the point, the functions round the exact value to
/// the nearest allowed number of digits.
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
  size_t after_ = 0;   ///< Digits after the point.
  size_t exponent_digits_ = 0;
};

extern template class FloatFormat<float>;
extern template class FloatFormat<double>;

}  // namespace callout::internal
