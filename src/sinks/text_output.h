// SPDX-License-Identifier: Apache-2.0
//
// Whole lines on their way to a file descriptor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/thread_annotations.h"
#include "callout/status.h"

namespace callout::internal {

/// Thread-safe.
class TextOutput {
 public:
  /// Of one sink alone. Borrowed: `fd` outlives it. `what` is the file's name in errors.
  TextOutput(int fd, std::string what) : fd_(fd), what_(std::move(what)) {}
  /// Shared by all sinks that print to `fd` (-1: standard output), so that lines come in the order of their records.
  static std::shared_ptr<TextOutput> Of(int fd);

  /// `append` adds whole lines, or nothing and says why. Written at once when there are many.
  Status Add(const std::function<Status(std::string& lines)>& append);
  /// Writes what was added. Error: Internal, with the file's name and errno's text; the lines are gone then.
  Status Flush();

 private:
  Status Write() CALLOUT_REQUIRES(mutex_);

  const int fd_;
  const std::string what_;
  Mutex mutex_;
  std::string lines_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
