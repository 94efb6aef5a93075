// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/numpy_text.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>

#include "callout/elements.h"
#include "core/encoding/utf8.h"
#include "core/frame/elements.h"
#include "sinks/text/numpy_numbers.h"

namespace callout::internal {

Excerpt::Excerpt(const callout_buffer& whole) : shown_(whole) {
  for (uint32_t axis = 0; axis < whole.rank; ++axis) {
    is_cut_.push_back(whole.dims[axis] > 2 * kEdge);
    dims_.push_back(std::min(whole.dims[axis], 2 * kEdge));
  }
  Copy(whole, 0, static_cast<const char*>(whole.data), whole.size_bytes);
  shown_.dims = dims_.data();
  shown_.data = bytes_.data();
  shown_.size_bytes = bytes_.size();
}

// Copies the sub-array at `from`, which has the axes from `axis` on and `bytes` bytes.
void Excerpt::Copy(const callout_buffer& whole, uint32_t axis, const char* from, uint64_t bytes) {
  if (axis == whole.rank) {
    bytes_.insert(bytes_.end(), from, from + bytes);
    return;
  }
  const uint64_t stride = bytes / static_cast<uint64_t>(whole.dims[axis]);
  for (int64_t i = 0; i < whole.dims[axis]; ++i) {
    if (is_cut_[axis] && i == kEdge) i = whole.dims[axis] - kEdge;
    Copy(whole, axis + 1, from + static_cast<uint64_t>(i) * stride, stride);
  }
}

namespace {

constexpr size_t kNumpyLineWidth = 75;
constexpr std::string_view kLeftOut = "...";

// The part of an array that is written.
struct Shown {
  const callout_buffer& buffer;
  const Excerpt* excerpt;  // Null: the whole array.

  bool leaves_out_before(uint32_t axis, int64_t i) const {
    return excerpt != nullptr && i == Excerpt::kEdge && excerpt->is_cut()[axis];
  }
};

// Lays out words. `write(i, out)` appends the i-th word, after `width_of(i)` was called for it.
template <typename WidthOf, typename WriteWord>
class Rows {
 public:
  Rows(const Shown& array, const WidthOf& width_of, const WriteWord& write, std::string& out)
      : array_(array), width_of_(width_of), write_(write), out_(out) {}

  /// Appends the axes from `axis` on, in brackets. A line has `width` columns, of which the first `indent` are blank.
  void Append(uint32_t axis, size_t indent, size_t width) {
    out_ += '[';
    const int64_t extent = array_.buffer.dims[axis];
    const uint32_t axes_left = array_.buffer.rank - axis;
    if (axes_left == 1) {
      AppendLastAxis(extent, indent, width - 1);  // A bracket must fit at the end.
    } else {
      for (int64_t i = 0; i < extent; ++i) {
        if (i > 0) out_.append(axes_left - 1, '\n').append(indent, ' ');
        if (array_.leaves_out_before(axis, i)) out_.append(kLeftOut).append(axes_left - 1, '\n').append(indent, ' ');
        Append(axis + 1, indent + 1, width - 1);
      }
    }
    out_ += ']';
  }

 private:
  void AppendLastAxis(int64_t extent, size_t indent, size_t width) {
    size_t column = indent;
    for (int64_t i = 0; i < extent; ++i) {
      if (array_.leaves_out_before(array_.buffer.rank - 1, i)) {
        BreakLine(kLeftOut.size(), indent, width, column);
        out_.append(kLeftOut).append(" ");
        column += kLeftOut.size() + 1;
      }
      const size_t word_width = width_of_(next_);
      BreakLine(word_width, indent, width, column);
      write_(next_++, out_);
      column += word_width;
      if (i + 1 == extent) continue;
      out_ += ' ';
      ++column;
    }
  }

  // Begins a new line if a word does not fit on this one.
  void BreakLine(size_t word, size_t indent, size_t width, size_t& column) {
    if (column <= indent || column + word <= width) return;
    out_.resize(out_.find_last_not_of(' ') + 1);
    out_.append(1, '\n').append(indent, ' ');
    column = indent;
  }

  const Shown& array_;
  const WidthOf& width_of_;
  const WriteWord& write_;
  std::string& out_;
  size_t next_ = 0;
};

template <typename WriteWord>
void AppendWords(const Shown& array, size_t word_width, const WriteWord& write, std::string& out) {
  if (array.buffer.rank == 0) {
    write(0, out);
    return;
  }
  const auto width_of = [word_width](size_t) { return word_width; };
  Rows(array, width_of, write, out).Append(0, 1, kNumpyLineWidth);
}

template <typename T>
T Element(const Shown& array, size_t i) {
  return PlainElements<T>()(array.buffer.data, static_cast<int64_t>(i));
}

void AppendBooleans(const Shown& array, std::string& out) {
  const std::string_view yes = array.buffer.rank == 0 ? "True" : " True";
  const auto write = [&](size_t i, std::string& to) { to += Element<bool>(array, i) ? yes : "False"; };
  AppendWords(array, 5, write, out);
}

template <typename T>
void AppendIntegers(const Shown& array, size_t count, std::string& out) {
  T low = Element<T>(array, 0);
  T high = low;
  for (size_t i = 1; i < count; ++i) {
    low = std::min(low, Element<T>(array, i));
    high = std::max(high, Element<T>(array, i));
  }
  const size_t width = std::max(IntegerText<T>(low).view().size(), IntegerText<T>(high).view().size());
  const auto write = [&](size_t i, std::string& to) {
    const IntegerText<T> text(Element<T>(array, i));
    to.append(width - text.view().size(), ' ').append(text.view());
  };
  AppendWords(array, width, write, out);
}

template <typename T>
void AppendFloats(const Shown& array, size_t count, T exponents_from, std::string& out) {
  FloatFormat<T> format(exponents_from);
  for (size_t i = 0; i < count; ++i) format.Look(Element<T>(array, i));
  format.Choose();
  for (size_t i = 0; i < count; ++i) format.Measure(Element<T>(array, i));
  format.Finish();
  const auto write = [&](size_t i, std::string& to) { format.Append(Element<T>(array, i), to); };
  AppendWords(array, format.width(), write, out);
}

template <typename T>
bool AppendPlain(const Shown& array, size_t count, float float32_exponents_from, std::string& out) {
  if constexpr (std::is_same_v<T, bool>) {
    AppendBooleans(array, out);
  } else if constexpr (std::is_integral_v<T>) {
    AppendIntegers<T>(array, count, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendFloats<T>(array, count, std::is_same_v<T, float> ? static_cast<T>(float32_exponents_from) : T{1e8}, out);
  } else {
    return false;
  }
  return true;
}

// Returns false for dtypes whose elements NumPy must format.
bool AppendElements(const Shown& array, size_t count, float float32_exponents_from, std::string& out) {
  const auto dtype = static_cast<DType>(array.buffer.dtype);
  if (IsSubByte(dtype)) return false;
  bool is_done = false;
  const auto append = [&]<typename T>(const PlainElements<T>&) {
    is_done = AppendPlain<T>(array, count, float32_exponents_from, out);
  };
  (void)VisitElements(dtype, [&](const auto& reader) {
    if constexpr (requires { append(reader); }) append(reader);
  });
  return is_done;
}

size_t ElementsOf(const callout_buffer& buffer) {
  size_t elements = 1;
  for (uint32_t axis = 0; axis < buffer.rank; ++axis) elements *= static_cast<size_t>(buffer.dims[axis]);
  return elements;
}

}  // namespace

bool AppendNumpyText(const callout_buffer& buffer, const NumpyTextOptions& options, std::string& out) {
  const size_t count = ElementsOf(buffer);
  if (count == 0) {
    out += "[]";
    return true;
  }
  if (static_cast<int64_t>(count) <= options.threshold) {
    return AppendElements({buffer, nullptr}, count, options.float32_exponents_from, out);
  }
  if (IsSubByte(static_cast<DType>(buffer.dtype))) return false;
  const Excerpt excerpt(buffer);
  return AppendElements({excerpt.shown(), &excerpt}, ElementsOf(excerpt.shown()), options.float32_exponents_from, out);
}

void AppendNumpyWords(const callout_buffer& buffer, int64_t threshold, const AppendWord& append, std::string& out) {
  if (buffer.rank == 0) return append(buffer, 0, out);
  const size_t count = ElementsOf(buffer);
  if (count == 0) {
    out += "[]";
    return;
  }
  std::optional<Excerpt> excerpt;
  if (static_cast<int64_t>(count) > threshold) excerpt.emplace(buffer);
  const callout_buffer& shown = excerpt ? excerpt->shown() : buffer;
  std::string word;
  const auto width_of = [&](size_t i) {
    word.clear();
    append(shown, i, word);
    return CodePoints(word);
  };
  const auto write = [&word](size_t, std::string& to) { to += word; };
  const Shown array = {shown, excerpt ? &*excerpt : nullptr};
  Rows(array, width_of, write, out).Append(0, 1, kNumpyLineWidth);
}

namespace {

constexpr size_t kPrintLineWidth = 80;

using Kind = LayoutPiece::Kind;

class Layout {
 public:
  Layout(std::span<const LayoutPiece> pieces, std::span<const std::string> leaves) : pieces_(pieces), leaves_(leaves) {}

  std::string Run() {
    for (size_t i = 0; i < pieces_.size(); ++i) Append(i);
    return std::move(out_);
  }

 private:
  void Append(size_t i) {
    const LayoutPiece& piece = pieces_[i];
    switch (piece.kind) {
      case Kind::kText:
        return AppendText(piece.text);
      case Kind::kLeaf:
        return AppendText(leaves_[piece.number]);
      case Kind::kBreak:
        if (one_line_.empty() || !one_line_.back()) return NewLine(piece.number);
        return AppendText(" ");
      case Kind::kOpen:
        return one_line_.push_back((!one_line_.empty() && one_line_.back()) ||
                                   column_ + GroupWidth(i) <= kPrintLineWidth);
      case Kind::kClose:
        return one_line_.pop_back();
    }
  }

  void AppendText(std::string_view text) {
    out_ += text;
    column_ += CodePoints(text);
  }

  void NewLine(size_t indent) {
    out_.append(1, '\n').append(indent, ' ');
    column_ = indent;
  }

  // Returns the width, on one line, of the group that opens at `i`.
  size_t GroupWidth(size_t i) const {
    size_t width = 0;
    int depth = 0;
    do {
      const LayoutPiece& piece = pieces_[i++];
      if (piece.kind == Kind::kOpen) ++depth;
      if (piece.kind == Kind::kClose) --depth;
      if (piece.kind == Kind::kBreak) ++width;
      if (piece.kind == Kind::kText) width += CodePoints(piece.text);
      if (piece.kind == Kind::kLeaf) width += CodePoints(leaves_[piece.number]);
    } while (depth > 0);
    return width;
  }

  const std::span<const LayoutPiece> pieces_;
  const std::span<const std::string> leaves_;
  std::string out_;
  size_t column_ = 0;
  std::vector<bool> one_line_;  ///< One for each open group.
};

}  // namespace

std::string LayOut(std::span<const LayoutPiece> pieces, std::span<const std::string> leaves) {
  return Layout(pieces, leaves).Run();
}

}  // namespace callout::internal
