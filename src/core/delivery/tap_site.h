// SPDX-License-Identifier: Apache-2.0
//
// A tap at one place of a program or outside of programs (TapSite), and the throttle of its records (Throttle).
// `every`, `min_interval` and `sample` are applied before anything is copied, on each device separately.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "callout/export.h"
#include "callout/queue_policy.h"
#include "core/attributes/site_attributes.h"
#include "core/base/live_count.h"
#include "core/base/process_state.h"
#include "core/base/ticks.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

class Throttle {
 public:
  /// Admits the 1st, (every+1)th, ... record of each device, or those whose step `every` divides. Each of these is then
  /// admitted with the probability `sample_ppb`, and only if `min_interval_ns` has passed since the last admitted
  /// record.
  explicit Throttle(const TapAttributes& attributes)
      : every_(attributes.every),
        min_interval_ns_(std::min(attributes.min_interval_ns, kLongestInterval)),
        sample_below_(attributes.sample_ppb >= kAllPpb
                          ? kAll
                          : static_cast<uint32_t>(static_cast<double>(attributes.sample_ppb) / kAllPpb *
                                                  static_cast<double>(kAll))) {}

  ~Throttle() {
    for (std::atomic<State*>& slot : states_) {
      for (State* state = slot.load(std::memory_order_relaxed); state != nullptr;) {
        delete std::exchange(state, state->neighbor.load(std::memory_order_relaxed));
      }
    }
  }
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

  /// The place at which a record is left out. A program runs ahead of its records that are upstream, so each place has
  /// its own count: records that the program has since left out do not precede a record that arrives.
  enum class Place { kInProgram, kUpstream };

  /// Decides whether a record is sent, and counts it as skipped if not. Thread-safe.
  bool Admit(int32_t device = 0, std::optional<int64_t> step = std::nullopt, Place place = Place::kInProgram) {
    if (every_ > 1 && !IsTurn(device, step)) return Refuse(device, place);
    if (sample_below_ != kAll && Random() >= sample_below_) return Refuse(device, place);
    return min_interval_ns_ == 0 || AdmitTime(StateOf(device), SteadyNanoseconds()) || Refuse(device, place);
  }

  /// Returns true if Admit admits all records.
  bool AdmitsAll() const { return every_ <= 1 && sample_below_ == kAll && min_interval_ns_ == 0; }

  /// Returns true if Admit needs the step of sites that have one.
  bool AsksForStep() const { return every_ > 1; }

  /// Counts skipped records. Thread-safe.
  void AddSkipped(uint32_t count, int32_t device = 0, Place place = Place::kInProgram) {
    if (count > 0) StateOf(device).skipped[Index(place)].fetch_add(count, std::memory_order_relaxed);
  }
  /// Returns how many records of the device and place were skipped since the last call. Thread-safe.
  uint32_t TakeSkipped(int32_t device = 0, Place place = Place::kInProgram) {
    State* state = Find(device);
    if (state == nullptr || state->skipped[Index(place)].load(std::memory_order_relaxed) == 0) return 0;
    return state->skipped[Index(place)].exchange(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kLongestInterval = INT64_MAX / 2;  // centuries; the sum with the clock does not overflow
  static constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();

  struct State {
    explicit State(int32_t of) : device(of) {}

    const int32_t device;
    std::atomic<State*> neighbor{nullptr};           // a device that shares the slot
    std::array<std::atomic<uint32_t>, 2> skipped{};  // indexed by Place
    std::atomic<int64_t> seen{0};
    std::atomic<int64_t> next{INT64_MIN};
  };
  // Slots are chosen by the low bits of the ordinal, as for queues, because the devices of a process have neighbouring
  // ordinals.
  static constexpr size_t kSlots = 64;

  static constexpr size_t Index(Place place) { return static_cast<size_t>(place); }

  std::atomic<State*>& SlotOf(int32_t device) { return states_[static_cast<uint32_t>(device) % kSlots]; }

  State* Find(int32_t device) {
    State* state = SlotOf(device).load(std::memory_order_acquire);
    while (state != nullptr && state->device != device) [[unlikely]]
      state = state->neighbor.load(std::memory_order_acquire);
    return state;
  }

  State& StateOf(int32_t device) {
    State* const found = Find(device);
    if (found != nullptr) [[likely]]
      return *found;
    auto made = std::make_unique<State>(device);
    std::atomic<State*>* end = &SlotOf(device);
    State* other = nullptr;
    while (!end->compare_exchange_strong(other, made.get(), std::memory_order_acq_rel)) {
      if (other->device == device) return *other;
      end = &other->neighbor;
      other = nullptr;
    }
    return *made.release();
  }

  bool IsTurn(int32_t device, std::optional<int64_t> step) {
    const int64_t count = step ? *step : StateOf(device).seen.fetch_add(1, std::memory_order_relaxed);
    return count % every_ == 0;
  }

  bool Refuse(int32_t device, Place place) {
    AddSkipped(1, device, place);
    return false;
  }

  bool AdmitTime(State& state, int64_t now) {
    int64_t next = state.next.load(std::memory_order_relaxed);
    while (now >= next) {
      // Several threads may get here at once: exactly one of them takes this interval.
      if (state.next.compare_exchange_weak(next, now + min_interval_ns_, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  // Returns the upper half of SplitMix64 (Steele, Lea and Flood, 2014); each thread has its own sequence.
  static uint32_t Random() {
    thread_local uint64_t state = Ticks() ^ (std::hash<std::thread::id>{}(std::this_thread::get_id()) << 32);
    uint64_t z = (state += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
  }

  const int64_t every_;
  const int64_t min_interval_ns_;
  const uint32_t sample_below_;
  std::array<std::atomic<State*>, kSlots> states_{};
};

/// The devices and processes of a program whose taps send records. -1 admits all.
struct SenderFilter {
  int64_t device_ordinal = -1;
  int64_t process_index = -1;

  /// Returns true if the filter admits all devices.
  bool AdmitsAll() const { return device_ordinal < 0 && process_index < 0; }
  /// Returns whether a device of this process may send. Thread-safe.
  bool Admits(int32_t device) const {
    return (device_ordinal < 0 || device == device_ordinal) && (process_index < 0 || ProcessIndex() == process_index);
  }
};

/// The place of a tap in a program, or outside of programs. A site in a program lives as long as the executable or one
/// of the site's records.
struct TapSite {
  /// Makes a site that sends records to `to`. Ignores the callback's name in `attributes`.
  TapSite(std::shared_ptr<Callback> to, const TapAttributes& attributes)
      : callback(std::move(to)),
        info(InfoOf(*callback, attributes)),
        throttle(std::make_unique<Throttle>(attributes)),
        policy(attributes.on_full),
        has_rows(attributes.rows),
        has_turns(attributes.turns),
        hand_over(attributes.rows ? attributes.hand_over : 0),
        following(attributes.following),
        inspector(callback->inspector()),
        router(callback->router()),
        behind_handle(router == nullptr ? nullptr : std::make_unique<const SiteInfo>(info.BehindFirst())),
        senders{.device_ordinal = attributes.only_device, .process_index = attributes.only_process} {}

  const std::shared_ptr<Callback> callback;
  const SiteInfo info;
  const std::unique_ptr<Throttle> throttle;
  const OverflowPolicy policy;
  const bool has_rows;  ///< The operands hold several records, see tap_rows.h.
  const bool has_turns;
  const int64_t hand_over;     ///< 0: the rows of the tap are sent alone.
  const int64_t following;     ///< How many taps of the hand-over follow.
  Inspector* const inspector;  ///< Borrowed from the callback.
  Router* const router;        ///< Borrowed from the callback.
  /// The site without the leaf that holds the handle, for receivers that `router` finds. Null without a router.
  const std::unique_ptr<const SiteInfo> behind_handle;
  const SenderFilter senders;
  /// Records hold a plain pointer to their site. The pointer stays valid because a retired site passes through the same
  /// queues after the records: this counts the queues that the site has not left yet.
  std::atomic<int> retiring{0};
  Counted<LiveKind::kSite> counted;

 private:
  CALLOUT_EXPORT static SiteInfo InfoOf(const Callback& callback, const TapAttributes& attributes);
};

/// Returns InvalidArgument if a record of the site may not have `count` buffers (without the step) for `receiver`: one
/// buffer for each leaf, and one for the offsets if the site has them. A site whose only leaf has no name may also send
/// no buffers. Thread-safe.
CALLOUT_EXPORT Status CheckBufferCount(const SiteInfo& info, const Callback& receiver, size_t count);

/// Removes the offsets, if the site's records have them, from `buffers` and returns them.
inline std::span<const int64_t> TakeOffsets(const SiteInfo& info, std::span<const callout_buffer>& buffers) {
  if (!info.has_offsets || buffers.empty()) return {};
  const callout_buffer& last = buffers.back();
  buffers = buffers.first(buffers.size() - 1);
  return {static_cast<const int64_t*>(last.data), last.size_bytes / sizeof(int64_t)};
}

}  // namespace callout::internal
