// SPDX-License-Identifier: Apache-2.0
#include "text/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "callout/dtype.h"
#include "frame/buffer.h"
#include "frame/small_float.h"
#include "frame/subbyte.h"

namespace callout::internal {
namespace {

constexpr int64_t kPrintThreshold = 1000;  // elements, as NumPy's
constexpr int64_t kPrintEdge = 3;

template <typename T>
T Load(const char* data, int64_t i) {
  T value;
  std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

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
void AppendComplex(T re, T im, TextStyle style, std::string& out) {
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

ElementWriter::ElementWriter(const callout_buffer& buffer, TextStyle style)
    : dtype_(static_cast<DType>(buffer.dtype)), style_(style) {
  data_ = static_cast<const char*>(buffer.data);
  if (IsSubByte(dtype_)) {
    const int64_t n = ElementCount(buffer);
    unpacked_.resize(static_cast<size_t>(n));
    Unpack(dtype_, buffer.data, n, unpacked_.data());
    data_ = reinterpret_cast<const char*>(unpacked_.data());
  }
}

void ElementWriter::Append(int64_t i, std::string& out) const {
  const bool json = style_ == TextStyle::kJson;
  switch (dtype_) {
    case DType::kBool:
      out += Load<uint8_t>(data_, i) != 0 ? (json ? "true" : "True") : (json ? "false" : "False");
      return;
    case DType::kInt1:
    case DType::kInt2:
    case DType::kInt4:
    case DType::kInt8:
      return AppendDigits(static_cast<int>(Load<int8_t>(data_, i)), out);
    case DType::kUint1:
    case DType::kUint2:
    case DType::kUint4:
    case DType::kUint8:
      return AppendDigits(static_cast<int>(Load<uint8_t>(data_, i)), out);
    case DType::kInt16:
      return AppendDigits(Load<int16_t>(data_, i), out);
    case DType::kInt32:
      return AppendDigits(Load<int32_t>(data_, i), out);
    case DType::kInt64:
      return AppendDigits(Load<int64_t>(data_, i), out);
    case DType::kUint16:
      return AppendDigits(Load<uint16_t>(data_, i), out);
    case DType::kUint32:
      return AppendDigits(Load<uint32_t>(data_, i), out);
    case DType::kUint64:
      return AppendDigits(Load<uint64_t>(data_, i), out);
    case DType::kFloat32:
      return AppendFloat(Load<float>(data_, i), style_, out);
    case DType::kFloat64:
      return AppendFloat(Load<double>(data_, i), style_, out);
    case DType::kComplex64:
      return AppendComplex(Load<float>(data_, 2 * i), Load<float>(data_, 2 * i + 1), style_, out);
    case DType::kComplex128:
      return AppendComplex(Load<double>(data_, 2 * i), Load<double>(data_, 2 * i + 1), style_, out);
    case DType::kFloat16:
    case DType::kBfloat16:
      return AppendFloat(SmallFloatToFloat(dtype_, Load<uint16_t>(data_, i)), style_, out);
    default:
      return AppendFloat(SmallFloatToFloat(dtype_, Load<uint8_t>(data_, i)), style_, out);
  }
}

void AppendArray(const callout_buffer& buffer, TextStyle style, std::string& out) {
  const bool cut = style == TextStyle::kPrint && ElementCount(buffer) > kPrintThreshold;
  AppendNested(buffer, ElementWriter(buffer, style), style, cut, 0, 0, out);
}

void AppendNumber(double value, std::string& out) { AppendDigits(value, out); }

}  // namespace callout::internal
