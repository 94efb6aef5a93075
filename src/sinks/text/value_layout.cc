// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/value_layout.h"

#include <string_view>

#include "core/encoding/utf8.h"

namespace callout::internal {
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

  // Of the group that opens at `i`, on one line.
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
  std::vector<bool> one_line_;  ///< For each open group.
};

}  // namespace

std::string LayOut(std::span<const LayoutPiece> pieces, std::span<const std::string> leaves) {
  return Layout(pieces, leaves).Run();
}

}  // namespace callout::internal
