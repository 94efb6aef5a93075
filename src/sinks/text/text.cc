// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <string_view>
#include <type_traits>

#include "callout/elements.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

constexpr int64_t kPrintThreshold = 1000;  // In elements; NumPy's default.
constexpr int64_t kPrintEdge = 3;

constexpr size_t kLongest = 64;  // The longest text of an element, with its separator.
constexpr int64_t kAtOnce = 16;  // The number of elements that are appended at once.

// These functions write to `out` and return the end of what they wrote.
char* Write(std::string_view text, char* out) { return std::copy(text.begin(), text.end(), out); }

template <typename T>
char* WriteDigits(T value, char* out) {
  return std::to_chars(out, out + kLongest, value).ptr;
}

template <typename T>
char* WriteFloat(T value, TextStyle style, char* out) {
  const bool json = style == TextStyle::kJson;
  if (json && value == 0 && std::signbit(value)) return Write("-0.0", out);  // JSON readers take "-0" for an integer.
  if (std::isfinite(value)) return WriteDigits(value, out);
  if (std::isnan(value)) return Write(json ? "\"NaN\"" : "nan", out);
  if (value > 0) return Write(json ? "\"Infinity\"" : "inf", out);
  return Write(json ? "\"-Infinity\"" : "-inf", out);
}

template <typename T>
char* WriteComplex(std::complex<T> value, TextStyle style, char* out) {
  const T re = value.real(), im = value.imag();
  if (style == TextStyle::kJson) {
    *out++ = '[';
    out = WriteFloat(re, style, out);
    *out++ = ',';
    out = WriteFloat(im, style, out);
    *out++ = ']';
    return out;
  }
  out = WriteFloat(re, style, out);
  if (!std::signbit(im) || std::isnan(im)) *out++ = '+';
  out = WriteFloat(im, style, out);
  *out++ = 'j';
  return out;
}

template <typename T>
char* WriteValue(T value, TextStyle style, char* out) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool json = style == TextStyle::kJson;
    return Write(value ? (json ? "true" : "True") : (json ? "false" : "False"), out);
  } else if constexpr (std::is_integral_v<T>) {
    return WriteDigits(+value, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    char* const end = WriteFloat(value, style, out);
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || c == '-'; };
    return style == TextStyle::kCsv && std::all_of(out, end, is_digit) ? Write(".0", end) : end;
  } else {
    return WriteComplex(value, style, out);
  }
}

// Appends the sub-array of the dimensions from `dim` on that begins at element `offset`.
void AppendNested(const callout_buffer& buffer, const ElementWriter& writer, TextStyle style, bool cut, uint32_t dim,
                  int64_t offset, std::string& out) {
  if (dim == buffer.rank) return writer.Append(offset, out);
  const char separator = style == TextStyle::kJson ? ',' : ' ';
  int64_t stride = 1;
  for (uint32_t d = dim + 1; d < buffer.rank; ++d) stride *= buffer.dims[d];
  const int64_t extent = buffer.dims[dim];
  out += '[';
  if (dim + 1 == buffer.rank && !cut) {
    writer.Append(offset, extent, separator, out);
    out += ']';
    return;
  }
  for (int64_t i = 0; i < extent; ++i) {
    if (i > 0) out += separator;
    if (cut && extent > 2 * kPrintEdge && i == kPrintEdge) {
      out += "... ";
      i = extent - kPrintEdge;
    }
    AppendNested(buffer, writer, style, cut, dim + 1, offset + i * stride, out);
  }
  out += ']';
}

}  // namespace

template <typename Reader>
void ElementWriter::ReadWith(const Reader& reader, TextStyle style) {
  if constexpr (requires { reader.format; }) format_ = reader.format;
  style_ = style;
  append_ = [](const ElementWriter& writer, int64_t i, int64_t count, char separator, std::string& out) {
    Reader again;
    if constexpr (requires { again.format; }) again.format = writer.format_;
    char text[kLongest * kAtOnce];
    for (const int64_t end = i + count; i < end;) {
      char* at = text;
      for (const int64_t stop = std::min(end, i + kAtOnce); i < stop; ++i) {
        at = WriteValue(again(writer.data_, i), writer.style_, at);
        *at++ = separator;
      }
      out.append(text, i < end ? at : at - 1);
    }
  };
}

Result<ElementWriter> ElementWriter::Of(const callout_buffer& buffer, TextStyle style) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  ElementWriter writer;
  if (!VisitElements(dtype, [&](const auto& reader) { writer.ReadWith(reader, style); })) {
    return UnknownDType("write the text", dtype);
  }
  writer.data_ = buffer.data;
  if (IsSubByte(dtype)) {
    const int64_t n = ElementCount(buffer);
    writer.unpacked_.resize(static_cast<size_t>(n));
    Unpack(dtype, buffer.data, n, writer.unpacked_.data());
    writer.data_ = writer.unpacked_.data();
  }
  return writer;
}

Status AppendArray(const callout_buffer& buffer, TextStyle style, std::string& out) {
  CALLOUT_ASSIGN_OR_RETURN(const ElementWriter writer, ElementWriter::Of(buffer, style));
  const bool cut = style == TextStyle::kPrint && ElementCount(buffer) > kPrintThreshold;
  AppendNested(buffer, writer, style, cut, 0, 0, out);
  return OkStatus();
}

void AppendNumber(double value, std::string& out) {
  char digits[kLongest];
  out.append(digits, WriteDigits(value, digits));
}

}  // namespace callout::internal
