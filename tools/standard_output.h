// SPDX-License-Identifier: Apache-2.0
//
// Reserves standard output for the command's result: whatever callbacks print meanwhile goes to standard error.
#pragma once

#include <string_view>

#include "callout/status.h"

namespace callout::tools {

/// Not thread-safe.
class ReservedOutput {
 public:
  /// With `reserves` false, the object does nothing.
  explicit ReservedOutput(bool reserves);
  ~ReservedOutput();
  ReservedOutput(const ReservedOutput&) = delete;
  ReservedOutput& operator=(const ReservedOutput&) = delete;

  /// Writes to the original standard output. Errors: Internal, with the reason.
  Status Write(std::string_view bytes) const;
  /// Restores standard output.
  void Release();

 private:
  int kept_ = -1;
};

}  // namespace callout::tools
