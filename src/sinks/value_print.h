// SPDX-License-Identifier: Apache-2.0
//
// What an `id_print` writes, as a program carries it: the name "id_print:" and a payload, whose format docs/abi.md has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/text/numpy_text.h"

namespace callout::internal {

inline constexpr std::string_view kPrintKind = "id_print";

struct ValuePrint {
  /// The line above the value, if there is one: `head`, or the device between `head` and `after_device`.
  std::string head;
  bool has_device = false;
  std::string after_device;
  std::vector<LayoutPiece> layout;
  size_t num_leaves = 0;
  int64_t threshold = 1000;          ///< See NumpyTextOptions.
  int64_t exponents_from = 1000000;  ///< As `float32_exponents_from` there.

  bool has_head() const { return has_device || !head.empty(); }
};

/// InvalidArgument, with what is wrong, for a payload that is not of this format: it may come from anywhere.
/// Thread-safe.
CALLOUT_EXPORT Result<ValuePrint> ParseValuePrint(std::string_view payload);

/// Writes each record's two texts to the file descriptor `fd`, which it does not own; -1: standard output. One write a
/// batch.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeValuePrintSink(std::string label, ValuePrint print, int fd);

/// The same, of what ParseValuePrint reads, to standard output. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeValuePrint(const std::string& label, std::string_view payload);

}  // namespace callout::internal
