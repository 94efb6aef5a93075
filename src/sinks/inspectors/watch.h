// SPDX-License-Identifier: Apache-2.0
//
// `callout.watch`: a tap that looks for NaN and infinities where the value lies, and sends nothing. A program carries
// it as the name "watch:" and a payload (docs/abi.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/non_finite.h"

namespace callout::internal {

/// Where it went bad for the first time.
struct WatchedPlace {
  int64_t step = 0;
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
  double time = 0;  ///< Seconds since 1970.
  std::string leaf;
  std::string shape;                ///< Of what the device has: "f32[8,4]".
  std::vector<int64_t> index;       ///< In the whole value, also where the device has a shard of it.
  std::vector<int64_t> shard = {};  ///< Where the device's shard begins; empty if it has the whole.
  bool is_nan = false;              ///< Else infinite.
  uint64_t nan = 0;                 ///< In that call, in all leaves.
  uint64_t infinite = 0;
};

struct WatchCounts {
  uint64_t calls = 0;
  uint64_t bad_calls = 0;  ///< With something that was asked for.
  uint64_t elements = 0;
  uint64_t nan = 0;
  uint64_t infinite = 0;
  std::optional<WatchedPlace> first;
};

/// What all watches of one name have seen.
class WatchEntry {
 public:
  /// Adds what was found in one record, and writes the record's step to `place`: what its tap was told, or how often
  /// this was called for its device before. True if it is the first bad one. Thread-safe.
  bool Add(const Record& record, uint64_t elements, const NonFinite& found, std::optional<WatchedPlace>& place);
  /// Thread-safe.
  WatchCounts counts() const;
  /// Thread-safe.
  void Clear();

 private:
  mutable ForkMutex mutex_;
  WatchCounts counts_ CALLOUT_GUARDED_BY(mutex_);
  std::map<int32_t, int64_t> next_step_ CALLOUT_GUARDED_BY(mutex_);
};

/// The entry of `name`, made if needed. Of more than 4096 names, those that nobody watches now are forgotten.
/// Thread-safe.
CALLOUT_EXPORT std::shared_ptr<WatchEntry> WatchEntryFor(const std::string& name);

/// What was seen, by name. Thread-safe.
CALLOUT_EXPORT std::vector<std::pair<std::string, WatchCounts>> AllWatches();

/// Forgets what was seen, under all names or this one. Thread-safe.
CALLOUT_EXPORT void ResetWatches(const std::optional<std::string>& name = std::nullopt);

inline constexpr std::string_view kWatchKind = "watch";

struct WatchOptions {
  NonFiniteChecks checks;
  bool stop = false;  ///< Fails the program; else the first one is logged and counted only.
};

/// "1;ni;report": the format's number, what is looked for, what is done about it ("report", "stop"). InvalidArgument,
/// with what is wrong, for anything else: it may come from anywhere. Thread-safe.
CALLOUT_EXPORT Result<WatchOptions> ParseWatch(std::string_view payload);

/// Counts under the names of its taps. Logs the first value that is bad under a name.
CALLOUT_EXPORT std::shared_ptr<Callback> MakeWatch(std::string label, WatchOptions options);

/// The same, of what ParseWatch reads. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeWatchOf(const std::string& label, std::string_view payload);

}  // namespace callout::internal
