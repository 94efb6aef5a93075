// SPDX-License-Identifier: Apache-2.0
//
// A scanner of MLIR text: tokens and braces, no grammar. It suffices to find operations in MLIR's generic form, and to
// follow names of values through a region. Also reads the type of an array as MLIR writes it.
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

/// Reads "tensor<2x3xf32>", and "tensor<?x3xf32>" with ArrayType::kOpen. Returns nothing for other types than dense
/// arrays, and for element types that XLA lacks.
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
  /// Borrowed: `text` outlives the result. InvalidArgument for an unfinished string or brace.
  static Result<MlirText> Scan(std::string_view text);

  std::string_view text() const { return text_; }
  size_t size() const { return tokens_.size(); }
  const MlirToken& token(size_t i) const { return tokens_[i]; }
  /// Returns "" for an index behind the last token.
  std::string_view operator[](size_t i) const;
  bool Is(size_t i, MlirToken::Kind kind) const { return i < size() && tokens_[i].kind == kind; }
  /// Returns the text from token `begin` up to, but not including, token `end`.
  std::string_view Slice(size_t begin, size_t end) const;
  /// Returns the token behind the bracket that closes the one at `i`, or size().
  size_t Behind(size_t i) const;
  /// Returns the brace that closes the region around token `i`, or size().
  size_t EndOfRegion(size_t i) const;
  /// Returns the line of token `i`, counted from 1.
  size_t Line(size_t i) const;
  /// Returns the tokens that are the value `base` ("%3"), with or without a result number, in order.
  const std::vector<size_t>& Uses(std::string_view base) const;

 private:
  Status ReadTokens();
  Status MatchBraces();

  std::string_view text_;
  std::vector<MlirToken> tokens_;
  std::vector<size_t> region_end_;  // of each token
  std::unordered_map<std::string_view, std::vector<size_t>> uses_;
};

/// Returns "%3" for "%3#1".
std::string_view BaseOf(std::string_view value);
/// Returns 1 for "%3#1", 0 for "%3".
size_t NumberOf(std::string_view value);

}  // namespace callout::internal
