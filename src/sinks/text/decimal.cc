// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/decimal.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace callout::internal {

Decimal ReadScientific(std::string_view text) {
  Decimal out{};
  out.negative = text.front() == '-';
  if (out.negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  out.first = text.substr(0, 1);
  const size_t fraction = std::min<size_t>(2, e);  // behind the point, if there is one
  out.fraction = text.substr(fraction, e - fraction);
  const size_t exponent = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + exponent, text.data() + text.size(), out.exponent);
  return out;
}

}  // namespace callout::internal
