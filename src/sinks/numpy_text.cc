// SPDX-License-Identifier: Apache-2.0
#include "sinks/numpy_text.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "callout/dtype.h"
#include "sinks/numpy_numbers.h"

namespace callout::internal {
namespace {

constexpr size_t kLineWidth = 75;

// Lays out words of equal width. `write(i, out)` appends the i-th.
template <typename WriteWord>
class Rows {
 public:
  Rows(const callout_buffer& buffer, size_t word_width, const WriteWord& write, std::string& out)
      : buffer_(buffer), word_width_(word_width), write_(write), out_(out) {}

  /// Axis `axis` from here on, in brackets. `indent` columns lie in front of a line, which has `width`.
  void Append(uint32_t axis, size_t indent, size_t width) {
    out_ += '[';
    const int64_t extent = buffer_.dims[axis];
    const uint32_t axes_left = buffer_.rank - axis;
    if (axes_left == 1) {
      AppendLastAxis(extent, indent, width - 1);  // a bracket must fit behind
    } else {
      for (int64_t i = 0; i < extent; ++i) {
        if (i > 0) out_.append(axes_left - 1, '\n').append(indent, ' ');
        Append(axis + 1, indent + 1, width - 1);
      }
    }
    out_ += ']';
  }

 private:
  void AppendLastAxis(int64_t extent, size_t indent, size_t width) {
    size_t column = indent;
    for (int64_t i = 0; i < extent; ++i) {
      if (column > indent && column + word_width_ > width) {
        out_.resize(out_.find_last_not_of(' ') + 1);
        out_.append(1, '\n').append(indent, ' ');
        column = indent;
      }
      write_(next_++, out_);
      column += word_width_;
      if (i + 1 == extent) continue;
      out_ += ' ';
      ++column;
    }
  }

  const callout_buffer& buffer_;
  const size_t word_width_;
  const WriteWord& write_;
  std::string& out_;
  size_t next_ = 0;
};

template <typename WriteWord>
void AppendWords(const callout_buffer& buffer, size_t word_width, const WriteWord& write, std::string& out) {
  if (buffer.rank == 0) {
    write(0, out);
    return;
  }
  Rows<WriteWord>(buffer, word_width, write, out).Append(0, 1, kLineWidth);
}

template <typename T>
T Element(const callout_buffer& buffer, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer.data) + i * sizeof(T), sizeof(T));
  return value;
}

void AppendBooleans(const callout_buffer& buffer, std::string& out) {
  const std::string_view yes = buffer.rank == 0 ? "True" : " True";
  const auto write = [&](size_t i, std::string& to) { to += Element<uint8_t>(buffer, i) != 0 ? yes : "False"; };
  AppendWords(buffer, 5, write, out);
}

template <typename T>
void AppendIntegers(const callout_buffer& buffer, size_t count, std::string& out) {
  T low = Element<T>(buffer, 0);
  T high = low;
  for (size_t i = 1; i < count; ++i) {
    low = std::min(low, Element<T>(buffer, i));
    high = std::max(high, Element<T>(buffer, i));
  }
  const size_t width = std::max(IntegerText<T>(low).view().size(), IntegerText<T>(high).view().size());
  const auto write = [&](size_t i, std::string& to) {
    const IntegerText<T> text(Element<T>(buffer, i));
    to.append(width - text.view().size(), ' ').append(text.view());
  };
  AppendWords(buffer, width, write, out);
}

template <typename T>
void AppendFloats(const callout_buffer& buffer, size_t count, T exponents_from, std::string& out) {
  FloatFormat<T> format(exponents_from);
  for (size_t i = 0; i < count; ++i) format.Look(Element<T>(buffer, i));
  format.Choose();
  for (size_t i = 0; i < count; ++i) format.Measure(Element<T>(buffer, i));
  format.Finish();
  const auto write = [&](size_t i, std::string& to) { format.Append(Element<T>(buffer, i), to); };
  AppendWords(buffer, format.width(), write, out);
}

}  // namespace

bool AppendNumpyText(const callout_buffer& buffer, const NumpyTextOptions& options, std::string& out) {
  int64_t elements = 1;
  for (uint32_t i = 0; i < buffer.rank; ++i) elements *= buffer.dims[i];
  if (elements > options.threshold) return false;
  if (elements == 0) {
    out += "[]";
    return true;
  }
  const auto count = static_cast<size_t>(elements);
  const auto integers = [&]<typename T>(T) { return AppendIntegers<T>(buffer, count, out), true; };
  switch (static_cast<DType>(buffer.dtype)) {
    case DType::kBool:
      return AppendBooleans(buffer, out), true;
    case DType::kInt8:
      return integers(int8_t{});
    case DType::kInt16:
      return integers(int16_t{});
    case DType::kInt32:
      return integers(int32_t{});
    case DType::kInt64:
      return integers(int64_t{});
    case DType::kUint8:
      return integers(uint8_t{});
    case DType::kUint16:
      return integers(uint16_t{});
    case DType::kUint32:
      return integers(uint32_t{});
    case DType::kUint64:
      return integers(uint64_t{});
    case DType::kFloat32:
      return AppendFloats<float>(buffer, count, options.float32_exponents_from, out), true;
    case DType::kFloat64:
      return AppendFloats<double>(buffer, count, 1e8, out), true;
    default:
      return false;
  }
}

}  // namespace callout::internal
