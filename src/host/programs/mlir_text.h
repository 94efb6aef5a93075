// SPDX-License-Identifier: Apache-2.0
//
// A scanner of MLIR text: tokens and braces, no grammar. It is enough to find operations in MLIR's generic form, and to
// follow names of values through a region.
// ArrayType is the type of an array as MLIR writes it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "callout/pjrt/program.h"
#include "callout/status.h"

namespace callout::internal {

/// Reads "tensor<2x3xf32>", and "tensor<?x3xf32>" with ArrayType::kOpen; nothing for what is no dense array, and for
/// element types that XLA lacks.
std::optional<pjrt::ArrayType> FromMlirType(std::string_view text);

struct MlirToken {
  enum class Kind {
    kValue,   ///< %name or %name#1
    kString,  ///< with its quotes
    kWord,    ///< letters, digits, '_', '$', '.': names, numbers, shapes
    kSymbol,  ///< "->", or one character
  };
  Kind kind;
  size_t begin;
  size_t end;
};

class MlirText {
 public:
  /// Borrowed: `text` outlives the result. InvalidArgument for a string or a brace without its end.
  static Result<MlirText> Scan(std::string_view text);

  std::string_view text() const { return text_; }
  size_t size() const { return tokens_.size(); }
  const MlirToken& token(size_t i) const { return tokens_[i]; }
  /// "" behind the last token.
  std::string_view operator[](size_t i) const;
  bool Is(size_t i, MlirToken::Kind kind) const { return i < size() && tokens_[i].kind == kind; }
  /// The text from token `begin` up to and without token `end`.
  std::string_view Slice(size_t begin, size_t end) const;
  /// The token behind the bracket that closes the one at `i`, or size().
  size_t Behind(size_t i) const;
  /// The brace that closes the region around token `i`, or size().
  size_t EndOfRegion(size_t i) const;
  /// The line of token `i`, from 1.
  size_t Line(size_t i) const;
  /// Tokens that are the value `base` ("%3"), with any number behind it, in order.
  const std::vector<size_t>& Uses(std::string_view base) const;

 private:
  Status ReadTokens();
  Status MatchBraces();

  std::string_view text_;
  std::vector<MlirToken> tokens_;
  std::vector<size_t> region_end_;  // of each token
  std::unordered_map<std::string_view, std::vector<size_t>> uses_;
};

/// "%3" of "%3#1".
std::string_view BaseOf(std::string_view value);
/// 1 of "%3#1", 0 of "%3".
size_t NumberOf(std::string_view value);

}  // namespace callout::internal
