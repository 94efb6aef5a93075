// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/numpy_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace callout::internal {

Decimal ReadScientific(std::string_view text) {
  Decimal out{};
  out.negative = text.front() == '-';
  if (out.negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  out.first = text.substr(0, 1);
  const size_t fraction = std::min<size_t>(2, e);  // After the point, if there is one.
  out.fraction = text.substr(fraction, e - fraction);
  const size_t exponent = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + exponent, text.data() + text.size(), out.exponent);
  return out;
}

namespace {

// d.ddd x 10^exponent, without the point.
struct Scientific {
  std::string digits;
  int exponent;
};

// `digits` is the number of digits. 0: the fewest that read back as the same number.
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
  const int before = with_exponent ? 1 : number.exponent + 1;  // Digits before the point.
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
  // NumPy compares the number itself; the float32 that is written 1e-4 is smaller than 1e-4.
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
  /// Returns the parts without trailing zeros.
  FloatParts WithoutZeros() {
    while (parts_.text[parts_.size - 1] == '0' && parts_.size > parts_.point + 1) --parts_.size;
    return parts_;
  }

 private:
  FloatParts parts_;
};

using Text = char[48];

// Both functions write to `text`. Borrowed: valid as long as `text`.
template <typename T>
Decimal Shortest(T value, Text& text) {
  const char* end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific).ptr;
  return ReadScientific({text, static_cast<size_t>(end - text)});
}

// Rounds to `fraction` digits after the point.
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

// Requires numbers below 1e16: NumPy prints no others in this way by default.
template <typename T>
FloatParts PositionalParts(T value) {
  Text text;
  const Decimal shortest = Shortest(value, text);
  const int behind = static_cast<int>(shortest.fraction.size()) - shortest.exponent;
  const int fraction = std::clamp(behind, 0, static_cast<int>(kPrecision));
  // Printing the exact value with as many digits as the shortest text has gives that text.
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
  // NumPy widens the part before the point until "nan" and "inf" fit.
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
