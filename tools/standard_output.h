// SPDX-License-Identifier: Apache-2.0
//
// Standard output for one thing alone: what callbacks print meanwhile goes to standard error.
#pragma once

#include <string_view>

#include "callout/status.h"

namespace callout::tools {

/// Not thread-safe.
class ReservedOutput {
 public:
  /// `reserves`: false for one that does nothing.
  explicit ReservedOutput(bool reserves);
  ~ReservedOutput();
  ReservedOutput(const ReservedOutput&) = delete;
  ReservedOutput& operator=(const ReservedOutput&) = delete;

  /// Writes to what standard output was. Errors: Internal with the reason.
  Status Write(std::string_view bytes) const;
  /// From now on standard output is what it was.
  void Release();

 private:
  int kept_ = -1;
};

}  // namespace callout::tools
