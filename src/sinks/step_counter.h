// SPDX-License-Identifier: Apache-2.0
//
// The step of a record, for sinks that write one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/callbacks/callback.h"

namespace callout::internal {

/// The step that a leaf of this name is, if it is one: an integer scalar called "step".
std::optional<int64_t> StepLeaf(const std::string& name, const callout_buffer& buffer);

/// Not thread-safe: a sink's own, used on the delivery thread.
class StepCounter {
 public:
  StepCounter() = default;
  StepCounter(StepCounter&&) = default;
  StepCounter& operator=(StepCounter&&) = default;

  /// What the tap was told by `step=`; else an integer scalar leaf called "step"; else how often taps of this name and
  /// device were reached before, those that sent nothing included.
  int64_t Next(const Record& record);

  /// Goes on behind `step` with the records of this name, for a file that is appended to.
  void Resume(const std::string& label, int64_t step);

 private:
  void Find(const Record& record);

  std::map<std::string, int64_t> resumed_;  // by label, for devices that were not seen yet
  using Counts = std::map<std::pair<std::string, int32_t>, int64_t>;
  Counts next_;
  Counts::value_type* last_ = nullptr;  // of the record before
  uint64_t last_site_ = 0;
  bool has_leaf_ = false;
};

}  // namespace callout::internal
