// SPDX-License-Identifier: Apache-2.0
//
// Writes numbers as Python's `format` does: finds the parts of a number, joins them, and pads the result.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/encoding/utf8.h"
#include "sinks/text/format_string.h"
#include "sinks/text/numpy_numbers.h"

namespace callout::internal {
namespace {

constexpr int kDefaultPrecision = 6;

void AppendPadded(std::string_view text, const FormatSpec& spec, char usual_align, std::string& out) {
  const size_t length = CodePoints(text);
  const size_t width = static_cast<size_t>(spec.width);
  const size_t padding = width > length ? width - length : 0;
  const char align = spec.align != 0 ? spec.align : usual_align;
  const size_t left = align == '>' || align == '=' ? padding : align == '^' ? padding / 2 : 0;
  for (size_t i = 0; i < left; ++i) out += spec.fill;
  out += text;
  for (size_t i = left; i < padding; ++i) out += spec.fill;
}

// Groups the digits, with as many leading zeros as `least` characters need. A separator never comes first.
std::string Group(const std::string& digits, const FormatSpec& spec, int least) {
  if (digits.empty()) return {};
  const bool is_binary = spec.type != 0 && std::string_view("boxX").find(spec.type) != std::string_view::npos;
  const int interval = spec.grouping == 0 ? std::numeric_limits<int>::max() : is_binary ? 4 : 3;
  std::string reversed;
  auto left = static_cast<int>(digits.size());
  for (bool is_first = true;; is_first = false) {
    const int size = std::min(interval, std::max({left, least, 1}));
    if (!is_first) reversed += spec.grouping;
    for (int i = 0; i < size; ++i) reversed += left > 0 ? digits[static_cast<size_t>(--left)] : '0';
    least -= size;
    if (left <= 0 && least <= 0) break;
    --least;
  }
  return {reversed.rbegin(), reversed.rend()};
}

void AppendNumber(const NumberText& number, const FormatSpec& spec, std::string& out) {
  std::string head;
  if (number.negative) {
    head = '-';
  } else if (spec.sign == '+' || spec.sign == ' ') {
    head = spec.sign;
  }
  head += number.prefix;
  const bool pads_inside = spec.align == '=';
  const int least = pads_inside && spec.fill == "0"
                        ? spec.width - static_cast<int>(head.size()) - static_cast<int>(number.rest.size())
                        : 0;
  const std::string tail = Group(number.digits, spec, least) + number.rest;
  if (!pads_inside) return AppendPadded(head + tail, spec, '>', out);
  const size_t length = head.size() + CodePoints(tail);
  out += head;
  for (size_t i = length; i < static_cast<size_t>(spec.width); ++i) out += spec.fill;
  out += tail;
}

// `adds_zero`: real numbers without a type have a digit after the point; parts of complex numbers do not.
NumberText TextOf(double value, const FormatSpec& spec, bool adds_zero) {
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  const bool is_percent = spec.type == '%';
  if (is_percent) value *= 100;
  const double magnitude = std::abs(value);
  NumberText out;
  if (std::isnan(value)) {
    out.rest = upper ? "NAN" : "nan";
  } else if (std::isinf(value)) {
    out.rest = upper ? "INF" : "inf";
  } else {
    const int precision = spec.precision < 0 ? kDefaultPrecision : spec.precision;
    const FloatLayout layout = {
        .upper = upper, .keeps_point = spec.alternate, .adds_zero = adds_zero && spec.type == 0};
    if (spec.type == 0 && spec.precision < 0) {
      out = ShortestText(magnitude, layout);
    } else if (spec.type == 'e' || spec.type == 'E') {
      out = ScientificText(magnitude, precision, layout);
    } else if (spec.type == 'f' || spec.type == 'F' || is_percent) {
      out = FixedText(magnitude, precision, layout);
    } else {
      out = GeneralText(magnitude, precision, layout);
    }
  }
  out.negative = std::signbit(value) && !std::isnan(value);
  if (spec.no_negative_zero && out.negative && std::isfinite(value)) {
    const std::string all = out.digits + out.rest.substr(0, out.rest.find_first_of("eE"));
    out.negative = all.find_first_not_of("0.") != std::string::npos;
  }
  if (is_percent) out.rest += '%';
  return out;
}

void AppendInteger(uint64_t magnitude, bool negative, const FormatSpec& spec, std::string& out) {
  if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos) {
    const auto value = static_cast<double>(magnitude);
    return AppendFormatted(negative ? -value : value, spec, out);
  }
  NumberText number;
  number.negative = negative;
  if (spec.type == 'c') {
    constexpr uint64_t kLast = 0x10FFFF;
    constexpr uint32_t kReplacement = 0xFFFD;
    const bool exists = !negative && magnitude <= kLast;
    number.negative = false;
    AppendCodePoint(exists ? static_cast<uint32_t>(magnitude) : kReplacement, number.rest);
    return AppendNumber(number, spec, out);
  }
  const int base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : spec.type == 'x' || spec.type == 'X' ? 16 : 10;
  char digits[64];
  number.digits.assign(digits, std::to_chars(digits, digits + sizeof(digits), magnitude, base).ptr);
  if (spec.type == 'X') {
    for (char& digit : number.digits) digit = digit >= 'a' ? static_cast<char>(digit - 'a' + 'A') : digit;
  }
  if (spec.alternate && base != 10) {
    number.prefix = spec.type == 'b' ? "0b" : spec.type == 'o' ? "0o" : spec.type == 'x' ? "0x" : "0X";
  }
  AppendNumber(number, spec, out);
}

// `append` writes a part with the given sign.
template <typename T, typename Append>
void AppendParts(std::complex<T> value, bool in_parentheses, const Append& append, std::string& out) {
  const bool has_real = !in_parentheses || value.real() != 0 || std::signbit(value.real());
  if (has_real) {
    if (in_parentheses) out += '(';
    append(value.real(), false);
  }
  append(value.imag(), has_real);
  out += 'j';
  if (has_real && in_parentheses) out += ')';
}

template <typename T>
void AppendShortestPart(T value, bool with_sign, bool adds_zero, std::string& out) {
  if (std::signbit(value) && !std::isnan(value)) {
    out += '-';
  } else if (with_sign) {
    out += '+';
  }
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "nan" : "inf";
    return;
  }
  const NumberText text = ShortestText(std::abs(value), {.adds_zero = adds_zero});
  out.append(text.digits).append(text.rest);
}

template <typename T>
void AppendShortestComplex(std::complex<T> value, std::string& out) {
  const auto append = [&](T part, bool with_sign) { AppendShortestPart(part, with_sign, false, out); };
  AppendParts(value, true, append, out);
}

}  // namespace

void AppendFormatted(int64_t value, const FormatSpec& spec, std::string& out) {
  const auto bits = static_cast<uint64_t>(value);
  AppendInteger(value < 0 ? 0 - bits : bits, value < 0, spec, out);
}

void AppendFormatted(uint64_t value, const FormatSpec& spec, std::string& out) {
  AppendInteger(value, false, spec, out);
}

void AppendFormatted(double value, const FormatSpec& spec, std::string& out) {
  AppendNumber(TextOf(value, spec, true), spec, out);
}

void AppendFormatted(std::complex<double> value, const FormatSpec& spec, std::string& out) {
  FormatSpec part = spec;
  part.width = 0;
  part.align = '>';
  std::string text;
  const auto append = [&](double number, bool with_sign) {
    FormatSpec signed_part = part;
    if (with_sign) signed_part.sign = '+';
    AppendNumber(TextOf(number, signed_part, false), signed_part, text);
  };
  AppendParts(value, spec.type == 0, append, text);
  AppendPadded(text, spec, '>', out);
}

void AppendFormatted(std::string_view value, const FormatSpec& spec, std::string& out) {
  if (spec.precision >= 0) value = value.substr(0, BytesOf(value, static_cast<size_t>(spec.precision)));
  FormatSpec text = spec;
  if (text.align == '=') text.align = '<';
  AppendPadded(value, text, '<', out);
}

void AppendShortest(float value, std::string& out) { AppendShortestPart(value, false, true, out); }
void AppendShortest(double value, std::string& out) { AppendShortestPart(value, false, true, out); }
void AppendShortest(std::complex<float> value, std::string& out) { AppendShortestComplex(value, out); }
void AppendShortest(std::complex<double> value, std::string& out) { AppendShortestComplex(value, out); }

}  // namespace callout::internal
