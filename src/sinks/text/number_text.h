// SPDX-License-Identifier: Apache-2.0
//
// The text of a number in parts, for whoever groups its digits and pads it. Python's rules for floats
// (PyOS_double_to_string); magnitudes are finite and not negative.
#pragma once

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

}  // namespace callout::internal
