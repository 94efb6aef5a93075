// SPDX-License-Identifier: Apache-2.0
//
// A number's decimal digits, which Python's layout and NumPy's place in their own ways. std::to_chars finds them.
#pragma once

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

}  // namespace callout::internal
