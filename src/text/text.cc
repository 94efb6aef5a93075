// SPDX-License-Identifier: Apache-2.0
#include "text/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <type_traits>

#include "callout/elements.h"
#include "frame/buffer.h"
#include "frame/elements.h"

namespace callout::internal {
namespace {

constexpr int64_t kPrintThreshold = 1000;  // elements, as NumPy's
constexpr int64_t kPrintEdge = 3;

template <typename T>
void AppendDigits(T value, std::string& out) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  out.append(digits, end);
}

template <typename T>
void AppendFloat(T value, TextStyle style, std::string& out) {
  const bool json = style == TextStyle::kJson;
  if (json && value == 0 && std::signbit(value)) {
    out += "-0.0";  // "-0" would be read as an integer
    return;
  }
  if (std::isfinite(value)) return AppendDigits(value, out);
  if (std::isnan(value)) {
    out += json ? "\"NaN\"" : "nan";
  } else if (value > 0) {
    out += json ? "\"Infinity\"" : "inf";
  } else {
    out += json ? "\"-Infinity\"" : "-inf";
  }
}

template <typename T>
void AppendComplex(std::complex<T> value, TextStyle style, std::string& out) {
  const T re = value.real(), im = value.imag();
  if (style == TextStyle::kJson) {
    out += '[';
    AppendFloat(re, style, out);
    out += ',';
    AppendFloat(im, style, out);
    out += ']';
    return;
  }
  AppendFloat(re, style, out);
  if (!std::signbit(im) || std::isnan(im)) out += '+';
  AppendFloat(im, style, out);
  out += 'j';
}

template <typename T>
void AppendValue(T value, TextStyle style, std::string& out) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool json = style == TextStyle::kJson;
    out += value ? (json ? "true" : "True") : (json ? "false" : "False");
  } else if constexpr (std::is_integral_v<T>) {
    AppendDigits(+value, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendFloat(value, style, out);
  } else {
    AppendComplex(value, style, out);
  }
}

// Appends the sub-array of dimensions `dim`... that begins at element `offset`.
void AppendNested(const callout_buffer& buffer, const ElementWriter& writer, TextStyle style, bool cut, uint32_t dim,
                  int64_t offset, std::string& out) {
  if (dim == buffer.rank) return writer.Append(offset, out);
  int64_t stride = 1;
  for (uint32_t d = dim + 1; d < buffer.rank; ++d) stride *= buffer.dims[d];
  const int64_t extent = buffer.dims[dim];
  out += '[';
  for (int64_t i = 0; i < extent; ++i) {
    if (i > 0) out += style == TextStyle::kJson ? ',' : ' ';
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
  append_ = [](const ElementWriter& writer, int64_t i, std::string& out) {
    Reader again;
    if constexpr (requires { again.format; }) again.format = writer.format_;
    AppendValue(again(writer.data_, i), writer.style_, out);
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

void AppendNumber(double value, std::string& out) { AppendDigits(value, out); }

}  // namespace callout::internal
