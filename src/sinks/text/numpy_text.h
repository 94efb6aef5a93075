// SPDX-License-Identifier: Apache-2.0
//
// Writes arrays as `numpy.array2string` does with NumPy's default print options (8 digits, lines of 75 characters), by
// the rules of numpy/_core/arrayprint.py (NumPy 2.0 to 2.5), and the text of a tree of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"

namespace callout::internal {

class Excerpt {
 public:
  static constexpr int64_t kEdge = 3;  ///< The number of elements that are shown at each end of a cut axis.

  /// Copies the part of `whole` that is shown. Requires that elements are whole bytes.
  explicit Excerpt(const callout_buffer& whole);
  Excerpt(const Excerpt&) = delete;
  Excerpt& operator=(const Excerpt&) = delete;

  /// The elements that are shown. Borrowed: valid as long as this object.
  const callout_buffer& shown() const { return shown_; }
  /// For each axis, whether elements are left out after the first kEdge. Borrowed: valid as long as this object.
  const std::vector<bool>& is_cut() const { return is_cut_; }

 private:
  void Copy(const callout_buffer& whole, uint32_t axis, const char* from, uint64_t bytes);

  callout_buffer shown_;
  std::vector<int64_t> dims_;
  std::vector<bool> is_cut_;
  std::vector<char> bytes_;
};

struct NumpyTextOptions {
  /// Arrays with more elements are summarized: three elements at each end of long axes.
  int64_t threshold = 1000;
  /// The magnitude from which float32 has an exponent: 1e8, or 1e6 from NumPy 2.3 on.
  float float32_exponents_from = 1e8F;
};

/// Appends the text of an array of booleans, integers of 8 to 64 bits, f32 or f64, of any rank. Returns false, and
/// appends nothing, for other dtypes. Thread-safe.
CALLOUT_EXPORT bool AppendNumpyText(const callout_buffer& buffer, const NumpyTextOptions& options, std::string& out);

/// Appends the text of the `i`-th element of `shown`, which is the array or an excerpt of it.
using AppendWord = std::function<void(const callout_buffer& shown, size_t i, std::string& out)>;

/// Appends what `numpy.array2string` returns with `append` as its formatter, for words of any width. Requires that
/// elements are whole bytes.
void AppendNumpyWords(const callout_buffer& buffer, int64_t threshold, const AppendWord& append, std::string& out);

// Lays out the text of a tree of values from the texts of its leaves: on one line if that fits, or else on several.

struct LayoutPiece {
  enum class Kind : int {
    kText,   ///< `text` itself.
    kLeaf,   ///< The text of leaf `number`.
    kBreak,  ///< A space, or a new line indented by `number`.
    /// Begins a group. If all of the group fits on the line, its own breaks are spaces, or else new lines. Inner groups
    /// decide for themselves.
    kOpen,
    kClose,  ///< Ends a group.
  };
  Kind kind;
  std::string text;
  size_t number = 0;
};

/// Lays out pieces. A group fits if it ends by column 80. A column is a code point of UTF-8, and a leaf of several
/// lines counts whole, as in JAX's pretty printer. `leaves` has a text for every kLeaf. Thread-safe.
CALLOUT_EXPORT std::string LayOut(std::span<const LayoutPiece> pieces, std::span<const std::string> leaves);

}  // namespace callout::internal
