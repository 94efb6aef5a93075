// SPDX-License-Identifier: Apache-2.0
//
// The text that an `id_print` writes, which a program carries as the name "id_print:" and a payload. docs/abi.md has
// the format of the payload.
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
  /// The text of the line above the value. If `has_device`, the line continues with the device and `after_device`;
  /// otherwise an empty `head` means that there is no line.
  std::string head;
  bool has_device = false;
  std::string after_device;
  std::vector<LayoutPiece> layout;
  size_t num_leaves = 0;
  int64_t threshold = 1000;          ///< See NumpyTextOptions.
  int64_t exponents_from = 1000000;  ///< NumpyTextOptions::float32_exponents_from.

  bool has_head() const { return has_device || !head.empty(); }
};

/// Parses a payload, which may come from an untrusted source. Returns InvalidArgument, with the reason, if the payload
/// has another format. Thread-safe.
CALLOUT_EXPORT Result<ValuePrint> ParseValuePrint(std::string_view payload);

/// Makes a sink that writes each record's two texts to the file descriptor `fd`, with one write for each batch. -1:
/// standard output. Borrowed: `fd` must stay open as long as the sink lives.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeValuePrintSink(std::string label, ValuePrint print, int fd);

/// Makes a sink that writes to standard output from a payload that ParseValuePrint reads. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeValuePrint(const std::string& label, std::string_view payload);

}  // namespace callout::internal
