// SPDX-License-Identifier: Apache-2.0
//
// `callout.watch`: a tap that looks for NaN and infinities in place, and sends nothing. A program carries a watch as
// the name "watch:" and a payload (docs/abi.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/attributes/payload.h"
#include "core/base/fork_mutex.h"
#include "core/callbacks/callback.h"
#include "sinks/inspectors/non_finite.h"

namespace callout::internal {

/// The first place where a value was bad.
struct WatchedPlace {
  int64_t step = 0;
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
  double time = 0;  ///< In seconds since 1970.
  std::string leaf;
  std::string shape;                ///< The shape of what the device has, as in "f32[8,4]".
  std::vector<int64_t> index;       ///< Counts in the whole value, even if the device has a shard.
  std::vector<int64_t> shard = {};  ///< Where the device's shard begins; empty if the device has the whole value.
  bool is_nan = false;              ///< True: NaN. False: infinite.
  uint64_t nan = 0;                 ///< The number in the call, over all leaves.
  uint64_t infinite = 0;
};

struct WatchCounts {
  uint64_t calls = 0;
  uint64_t bad_calls = 0;  ///< Calls with a value that the watch looks for.
  uint64_t elements = 0;
  uint64_t nan = 0;
  uint64_t infinite = 0;
  std::optional<WatchedPlace> first;
};

/// The counts of all watches of one name.
class WatchEntry {
 public:
  /// Counts one record and its findings. A bad record comes with a `place`, to which Add writes the record's step: the
  /// tap's own, or else how often Add was called for the device before. Returns true for the first bad record.
  /// Thread-safe.
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

/// Returns the entry of `name`, which is created if needed. If there are more than 4096 names, those without a watch
/// are forgotten. Thread-safe.
CALLOUT_EXPORT std::shared_ptr<WatchEntry> WatchEntryFor(const std::string& name);

/// Returns the counts by name. Thread-safe.
CALLOUT_EXPORT std::vector<std::pair<std::string, WatchCounts>> AllWatches();

/// Resets the counts of one name, or of all names. Thread-safe.
CALLOUT_EXPORT void ResetWatches(const std::optional<std::string>& name = std::nullopt);

inline constexpr std::string_view kWatchKind = "watch";

enum class WatchedKinds { kNans, kInfinities, kBoth };
template <>
inline constexpr std::array<std::string_view, 3> kChoices<WatchedKinds> = {"n", "i", "ni"};

enum class WatchAction { kReport, kStop };
template <>
inline constexpr std::array<std::string_view, 2> kChoices<WatchAction> = {"report", "stop"};

struct WatchPayload {
  WatchedKinds kinds = WatchedKinds::kBoth;
  WatchAction action = WatchAction::kReport;
};

template <>
inline constexpr auto kAttributeRows<WatchPayload> =
    std::tuple(Field("kinds", &WatchPayload::kinds, "what is looked for: NaN, infinities, or both"),
               Field("action", &WatchPayload::action,
                     "`stop` fails the program; `report` counts, and logs the first value that is bad under a name"));

/// Makes a watch from a WatchPayload. It counts under the names of its taps. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeWatch(const std::string& label, std::string_view payload);

}  // namespace callout::internal
