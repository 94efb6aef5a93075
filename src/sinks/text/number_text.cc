// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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

namespace {

// d.ddd x 10^exponent, the point left out.
struct Scientific {
  std::string digits;
  int exponent;
};

// `digits`: how many; 0: the fewest that read back as the same number.
template <typename T>
Scientific ToScientific(T magnitude, int digits) {
  std::string text(static_cast<size_t>(digits) + 64, '\0');
  char* const begin = text.data();
  char* const end = begin + text.size();
  constexpr auto kFormat = std::chars_format::scientific;
  const auto written = digits == 0 ? std::to_chars(begin, end, magnitude, kFormat)
                                   : std::to_chars(begin, end, magnitude, kFormat, digits - 1);
  const Decimal number = ReadScientific({begin, static_cast<size_t>(written.ptr - begin)});
  return {std::string(number.first).append(number.fraction), number.exponent};
}

void AppendExponent(int exponent, bool upper, std::string& out) {
  out += upper ? 'E' : 'e';
  out += exponent < 0 ? '-' : '+';
  const std::string digits = std::to_string(std::abs(exponent));
  if (digits.size() < 2) out += '0';
  out += digits;
}

NumberText LayOut(const Scientific& number, const FloatLayout& layout, bool with_exponent) {
  NumberText out;
  const int before = with_exponent ? 1 : number.exponent + 1;  // digits before the point
  std::string fraction;
  if (before <= 0) {
    out.digits = "0";
    fraction = std::string(static_cast<size_t>(-before), '0') + number.digits;
  } else {
    out.digits = number.digits.substr(0, static_cast<size_t>(before));
    out.digits.append(static_cast<size_t>(before) - out.digits.size(), '0');
    if (static_cast<size_t>(before) < number.digits.size())
      fraction = number.digits.substr(static_cast<size_t>(before));
  }
  if (fraction.empty() && layout.adds_zero && !with_exponent) fraction = "0";
  if (!fraction.empty() || layout.keeps_point) out.rest = "." + fraction;
  if (with_exponent) AppendExponent(number.exponent, layout.upper, out.rest);
  return out;
}

}  // namespace

template <typename T>
NumberText ShortestText(T magnitude, const FloatLayout& layout) {
  // NumPy compares the number itself: the float32 whose digits are 1e-4 is smaller than that.
  const auto exact = static_cast<double>(magnitude);
  return LayOut(ToScientific(magnitude, 0), layout, exact != 0 && (exact < 1e-4 || exact >= 1e16));
}

template <typename T>
NumberText ShortestText(T magnitude, const FloatLayout& layout, bool with_exponent) {
  return LayOut(ToScientific(magnitude, 0), layout, with_exponent);
}

NumberText ScientificText(double magnitude, int precision, const FloatLayout& layout) {
  return LayOut(ToScientific(magnitude, precision + 1), layout, true);
}

NumberText GeneralText(double magnitude, int precision, const FloatLayout& layout) {
  const int digits = std::max(precision, 1);
  Scientific number = ToScientific(magnitude, digits);
  const bool with_exponent = number.exponent < -4 || number.exponent >= digits - (layout.adds_zero ? 1 : 0);
  if (!layout.keeps_point) number.digits.resize(std::max<size_t>(number.digits.find_last_not_of('0') + 1, 1));
  return LayOut(number, layout, with_exponent);
}

NumberText FixedText(double magnitude, int precision, const FloatLayout& layout) {
  std::string text(static_cast<size_t>(precision) + 400, '\0');
  const char* end =
      std::to_chars(text.data(), text.data() + text.size(), magnitude, std::chars_format::fixed, precision).ptr;
  text.resize(static_cast<size_t>(end - text.data()));
  const size_t point = std::min(text.find('.'), text.size());
  NumberText out;
  out.digits = text.substr(0, point);
  out.rest = text.substr(point);
  if (out.rest.empty() && layout.keeps_point) out.rest = ".";
  return out;
}

template NumberText ShortestText<float>(float, const FloatLayout&);
template NumberText ShortestText<double>(double, const FloatLayout&);
template NumberText ShortestText<float>(float, const FloatLayout&, bool);
template NumberText ShortestText<double>(double, const FloatLayout&, bool);

}  // namespace callout::internal
