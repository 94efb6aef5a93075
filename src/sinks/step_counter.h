// SPDX-License-Identifier: Apache-2.0
//
// Determines the step of a record, for sinks that write steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/callbacks/callback.h"

namespace callout::internal {

/// Returns the step if this leaf is one: an integer scalar called "step".
std::optional<int64_t> StepLeaf(const std::string& name, const callout_buffer& buffer);

/// Not thread-safe: each sink has its own, which the delivery thread uses.
class StepCounter {
 public:
  StepCounter() = default;
  StepCounter(StepCounter&&) = default;
  StepCounter& operator=(StepCounter&&) = default;

  /// Returns the record's step: the tap's `step=`; or else an integer scalar leaf called "step"; or else how often taps
  /// of this name and device were reached before, including those that sent nothing.
  int64_t Next(const Record& record);

  /// Makes records of this name continue after `step`, for a file that is appended to.
  void Resume(const std::string& label, int64_t step);

 private:
  void Find(const Record& record);

  std::map<std::string, int64_t> resumed_;  // By label, for devices that have not been seen yet.
  using Counts = std::map<std::pair<std::string, int32_t>, int64_t>;
  Counts next_;
  Counts::value_type* last_ = nullptr;  // The entry of the previous record.
  uint64_t last_site_ = 0;
  bool has_leaf_ = false;
};

}  // namespace callout::internal
