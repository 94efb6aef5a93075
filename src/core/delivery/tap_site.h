// SPDX-License-Identifier: Apache-2.0
//
// A tap at one place of a program or outside of programs (TapSite), and which of its records pass: `every`,
// `min_interval` and `sample` (Throttle) are decided before anything is copied, for each device by itself.
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
  /// Lets each device's 1st, (every+1)th, ... record through, or those whose step `every` divides. Of these each one
  /// with the probability of `sample_ppb`, and none closer than `min_interval_ns` after the last one that went through.
  explicit Throttle(const TapAttributes& said)
      : every_(said.every),
        min_interval_ns_(std::min(said.min_interval_ns, kLongestInterval)),
        sample_below_(said.sample_ppb >= kAllPpb ? kAll
                                                 : static_cast<uint32_t>(static_cast<double>(said.sample_ppb) /
                                                                         kAllPpb * static_cast<double>(kAll))) {}

  ~Throttle() {
    for (std::atomic<State*>& slot : states_) {
      for (State* state = slot.load(std::memory_order_relaxed); state != nullptr;) {
        delete std::exchange(state, state->neighbor.load(std::memory_order_relaxed));
      }
    }
  }
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

  /// Where a record is left out. A program runs ahead of its records that are upstream, so each place has a count of
  /// its own: what the program has left out meanwhile does not lie before a record that arrives.
  enum class Place { kInProgram, kUpstream };

  /// What it does not let through is counted as unsent. Thread-safe.
  bool Admit(int32_t device = 0, std::optional<int64_t> step = std::nullopt, Place place = Place::kInProgram) {
    if (every_ > 1 && !IsTurn(device, step)) return Refuse(device, place);
    if (sample_below_ != kAll && Random() >= sample_below_) return Refuse(device, place);
    return min_interval_ns_ == 0 || AdmitTime(StateOf(device), SteadyNanoseconds()) || Refuse(device, place);
  }

  /// True if Admit lets all through.
  bool AdmitsAll() const { return every_ <= 1 && sample_below_ == kAll && min_interval_ns_ == 0; }

  /// True if Admit needs the step, of sites that have one.
  bool AsksForStep() const { return every_ > 1; }

  /// Counts records that did not go out. Thread-safe.
  void AddUnsent(uint32_t count, int32_t device = 0, Place place = Place::kInProgram) {
    if (count > 0) StateOf(device).unsent[Index(place)].fetch_add(count, std::memory_order_relaxed);
  }
  /// How many of the device and place since this was asked last. Thread-safe.
  uint32_t TakeUnsent(int32_t device = 0, Place place = Place::kInProgram) {
    State* state = Find(device);
    if (state == nullptr || state->unsent[Index(place)].load(std::memory_order_relaxed) == 0) return 0;
    return state->unsent[Index(place)].exchange(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kLongestInterval = INT64_MAX / 2;  // centuries; added to the clock, it does not overflow
  static constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();

  struct State {
    explicit State(int32_t of) : device(of) {}

    const int32_t device;
    std::atomic<State*> neighbor{nullptr};          // of another device with this slot
    std::array<std::atomic<uint32_t>, 2> unsent{};  // by Place
    std::atomic<int64_t> seen{0};
    std::atomic<int64_t> next{INT64_MIN};
  };
  // By the low bits of the ordinal, as queues are found: a process's devices are neighbours.
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
    AddUnsent(1, device, place);
    return false;
  }

  bool AdmitTime(State& state, int64_t now) {
    int64_t next = state.next.load(std::memory_order_relaxed);
    while (now >= next) {
      // Several threads may ask at once: exactly one of them takes this interval.
      if (state.next.compare_exchange_weak(next, now + min_interval_ns_, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  // SplitMix64 (Steele, Lea and Flood, 2014), the upper half; a sequence a thread.
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

// A tap's place: in a program, for as long as the executable or a record of it lives; or outside of programs.

struct SenderFilter {
  int64_t device_ordinal = -1;
  int64_t process_index = -1;

  /// True if it admits all devices.
  bool AdmitsAll() const { return device_ordinal < 0 && process_index < 0; }
  /// Thread-safe.
  bool Admits(int32_t device) const {
    return (device_ordinal < 0 || device == device_ordinal) && (process_index < 0 || ProcessIndex() == process_index);
  }
};

struct TapSite {
  /// For records of `to`, whatever the attributes call it.
  TapSite(std::shared_ptr<Callback> to, const TapAttributes& said)
      : callback(std::move(to)),
        info(InfoOf(*callback, said)),
        throttle(std::make_unique<Throttle>(said)),
        policy(said.on_full),
        inspector(callback->inspector()),
        senders{.device_ordinal = said.only_device, .process_index = said.only_process} {}

  const std::shared_ptr<Callback> callback;
  const SiteInfo info;
  const std::unique_ptr<Throttle> throttle;
  const OverflowPolicy policy;
  Inspector* const inspector;  ///< The callback's.
  /// Which of all devices and processes of the program send; -1: all.
  const SenderFilter senders;
  /// Records hold a plain pointer to their site. It is safe because a retired site travels through the same queues
  /// behind them: this counts the queues that it still has to come out of.
  std::atomic<int> retiring{0};
  Counted<LiveKind::kSite> counted;

 private:
  CALLOUT_EXPORT static SiteInfo InfoOf(const Callback& callback, const TapAttributes& said);
};

/// InvalidArgument if a site's record for `receiver` may not have so many buffers, without the step: one for each leaf,
/// and the offsets if the site has some. A site whose one leaf has no name sends values without arrays, too.
/// **Thread-safe.**
CALLOUT_EXPORT Status CheckBufferCount(const SiteInfo& info, const Callback& receiver, size_t count);

/// Takes the offsets, if the site's records have them, away from `buffers`.
inline std::span<const int64_t> TakeOffsets(const SiteInfo& info, std::span<const callout_buffer>& buffers) {
  if (!info.has_offsets || buffers.empty()) return {};
  const callout_buffer& last = buffers.back();
  buffers = buffers.first(buffers.size() - 1);
  return {static_cast<const int64_t*>(last.data), last.size_bytes / sizeof(int64_t)};
}

}  // namespace callout::internal
