// SPDX-License-Identifier: Apache-2.0
//
// A callback of programs: a Python function, a native function or a sink, behind one interface (Callback); and the
// makers of callbacks from text (Makers).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/base/live_count.h"
#include "core/base/log.h"

namespace callout::internal {

/// The kind of threads that deliver a callback's tap records. Python code shares one interpreter lock; native code must
/// never wait for it.
enum class Worker : int { kPython = 0, kNative = 1 };
inline constexpr int kWorkerCount = 2;

/// Counters of all callbacks of one label. Any thread adds, any thread reads; a sum that is read while others add may
/// mix slightly different moments.
struct CallbackStats {
  std::atomic<uint64_t> odd_calls{0};   ///< Calls of another size than `pass_bytes`. See calls().
  std::atomic<uint64_t> odd_bytes{0};   ///< Operands and results of `odd_calls`. See bytes().
  std::atomic<uint64_t> host_ticks{0};  ///< Time inside the callback, see base/ticks.h. Sampled, see Stopwatch.
  std::atomic<uint64_t> drops{0};  ///< Records that a full or closed queue rejected, or for which there was no memory.
  std::atomic<uint64_t> skips{0};  ///< Records that `every`, `min_interval` or `sample` left out.
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> passes{0};               ///< Calls of `pass_bytes` each: see Count.
  std::atomic<uint64_t> pass_bytes{kNoPassYet};  ///< Set once.
  std::atomic<bool> tap_error_logged{false};
  std::atomic<bool> takes_long{false};     ///< The last call that was timed took long.
  std::atomic<uint64_t> profile_label{0};  ///< Cache of ProfileLabel, see profile/recorder.h.

  static constexpr uint64_t kNoPassYet = std::numeric_limits<uint64_t>::max();

  /// Counts a call of `size` bytes, by one locked addition if `size` is that of the first call. Thread-safe.
  void Count(uint64_t size) {
    uint64_t each = pass_bytes.load(std::memory_order_relaxed);
    if (each == kNoPassYet) [[unlikely]]
      each = pass_bytes.compare_exchange_strong(each, size, std::memory_order_relaxed) ? size : each;
    if (each == size) [[likely]] {
      passes.fetch_add(1, std::memory_order_release);  // pairs with bytes: who sees it sees `pass_bytes`
      return;
    }
    odd_calls.fetch_add(1, std::memory_order_relaxed);
    odd_bytes.fetch_add(size, std::memory_order_relaxed);
  }
  /// Returns the number of calls. Thread-safe.
  uint64_t calls() const { return odd_calls.load(std::memory_order_relaxed) + passes.load(std::memory_order_relaxed); }
  /// Returns the sum of the calls' bytes. Thread-safe.
  uint64_t bytes() const {
    const uint64_t count = passes.load(std::memory_order_acquire);  // pairs with Count
    const uint64_t others = odd_bytes.load(std::memory_order_relaxed);
    return count == 0 ? others : others + count * pass_bytes.load(std::memory_order_relaxed);
  }

  /// Zeroes all counts, and lets a tap's next error be logged again.
  void Reset() {
    for (auto* count : {&odd_calls, &odd_bytes, &host_ticks, &drops, &skips, &errors, &passes})
      count->store(0, std::memory_order_relaxed);
    tap_error_logged.store(false, std::memory_order_relaxed);
  }
};

/// The description of a tap's place in the program, for the receiver of its records.
struct SiteInfo {
  std::string label;
  std::vector<std::string> leaf_names;  ///< One for each buffer, "" for a value that is a single array.
  bool has_offsets = false;             ///< A last buffer, s64[n], is the begin of the shard in the whole value.
  bool has_step = false;                ///< Records have a step.
  uint64_t id = 0;                      ///< Number of the place, unique in the process; 0: none.

  /// Returns the site without its first leaf, of which there is one.
  SiteInfo BehindFirst() const {
    SiteInfo rest = *this;
    rest.leaf_names.erase(rest.leaf_names.begin());
    return rest;
  }
};

/// Returns `step + more`, or the largest number if the sum overflows, since programs choose any step. `more` is not
/// negative.
inline int64_t StepAfter(int64_t step, int64_t more) {
  int64_t sum = 0;
  return __builtin_add_overflow(step, more, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

/// One value that left the program.
struct Record {
  const SiteInfo* site = nullptr;
  std::span<const callout_buffer> buffers = {};
  /// One for each buffer: the block (base/block_pool.h) that holds a large buffer's data, or null. The receiver may
  /// take ownership by setting the pointer to null. All else in the record is Borrowed: valid until Deliver returns.
  void** blocks = nullptr;
  /// The begin of this shard in the whole value, for all dimensions of all buffers in turn. Empty: the value is whole.
  std::span<const int64_t> offsets = {};
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
  uint64_t sequence = 0;  ///< Counts the records of one device and worker.
  uint64_t ticks = 0;     ///< When the tap ran, see base/ticks.h; 0 for an Inspector, which runs at that time.
  std::optional<int64_t> step = {};  ///< The argument `step=` of the tap.
  /// How often the program reached this place since its last record without sending one (`every`, a full queue).
  uint32_t skipped = 0;

  /// Returns the record without its first buffer, which must exist.
  Record BehindFirst() const {
    Record rest = *this;
    rest.buffers = buffers.subspan(1);
    rest.blocks = blocks + 1;
    if (!offsets.empty()) rest.offsets = offsets.subspan(buffers.front().rank);
    return rest;
  }
};

/// Returns a record as the call of a function without results. Borrowed: valid as long as the record.
CALLOUT_EXPORT callout_call AsCall(const Record& record);

/// Inspects a tap's value in place, before it is copied. Runs inside the program, on an XLA thread; several threads may
/// be in it at once.
class Inspector {
 public:
  virtual ~Inspector() = default;
  enum class Send { kNothing, kNotice, kRecord };
  /// Returns what is to be delivered: nothing, a record without its arrays, or the whole record. An error fails the
  /// program. Borrowed: `record` is valid until the call returns, and nothing of it may be kept.
  virtual Result<Send> Inspect(const Record& record) = 0;
  /// Returns true if Inspect would return kNothing for any record with these arrays, so that the call may be left out.
  /// Returns false if the arrays alone do not decide. Borrowed: `buffers` are valid until the call returns.
  virtual bool Passes(std::span<const callout_buffer> /*buffers*/) { return false; }
};

class Callback;

/// Finds the receiver of a record whose first buffer is the receiver's handle.
class Router {
 public:
  virtual ~Router() = default;
  /// Returns the receiver of a record with these buffers. The receiver has the same worker as the router's callback.
  /// Runs on the worker's thread. Borrowed: `buffers` are valid until the call returns.
  virtual Result<std::shared_ptr<Callback>> Find(std::span<const callout_buffer> buffers) = 0;
};

class CALLOUT_EXPORT Callback {
 public:
  /// Makes a callback. People read `label`: the function's qualified name or the name under which it was registered.
  explicit Callback(std::string label);
  virtual ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  virtual Worker worker() const = 0;
  /// Returns whether `Call` accepts buffers outside of the host's memory, see callout_platform.
  virtual bool takes_device_memory() const { return false; }
  /// Returns whether `Call` always fails.
  virtual bool takes_taps_only() const { return false; }
  /// Returns the logger for messages about this callback.
  virtual LogSource log_source() const { return LogSource::kCore; }
  /// Runs inside the program, on an XLA thread; several threads may be in it at once. GIL not needed. `call` has no
  /// `set_error`: errors are returned. Its `error_context` is the program's XLA_FFI_CallFrame, null for an eager call.
  virtual Status Call(const callout_call& call) = 0;
  /// Returns an error if the callback does not accept taps of `num_leaves` arrays. Called when a program is loaded, so
  /// that all records have an accepted number. Thread-safe.
  virtual Status CheckTap(size_t /*num_leaves*/) const { return OkStatus(); }
  /// Delivers a tap's record, on the worker's thread.
  virtual Status Deliver(const Record& record) = 0;
  /// Called at the end of a batch, on the worker's thread, before a barrier counts the batch as delivered.
  virtual Status Flush() { return OkStatus(); }
  /// Returns the inspector of the records; null if there is none. Borrowed: valid as long as this object.
  virtual Inspector* inspector() { return nullptr; }
  /// Returns the router that finds the receivers of the records; null if this callback receives them. Borrowed: valid
  /// as long as this object.
  virtual Router* router() { return nullptr; }
  /// Returns the callback's description of its parameters; empty if there is none. Borrowed: valid as long as this
  /// object.
  virtual std::span<const callout_parameter> parameters() const { return {}; }

  uint64_t id() const { return id_; }
  const std::string& label() const { return label_; }
  CallbackStats& stats() const { return *stats_; }

 private:
  const uint64_t id_;
  const std::string label_;
  const std::shared_ptr<CallbackStats> stats_;
  Counted<LiveKind::kCallback> counted_;
};

/// Returns the label of the live callback with this id, "" if there is none. Thread-safe.
CALLOUT_EXPORT std::string LabelOf(uint64_t callback_id);

// Callbacks from text: the maker of a kind makes a callback from "kind:payload". A host may use all kinds. A program
// may come from anywhere, and may only use kinds that are registered for programs.

class CALLOUT_EXPORT Makers {
 public:
  /// `payload` is the text after the first ':', empty if there is none. Called without locks.
  using Maker = std::function<Result<std::shared_ptr<Callback>>(const std::string& label, std::string_view payload)>;
  enum class For { kHosts, kPrograms };

  /// Returns the process's makers, which are never destroyed. Thread-safe.
  static Makers& Get();

  /// Registers a kind. InvalidArgument for a kind that is empty or contains a ':', AlreadyExists for one that is taken.
  /// Thread-safe.
  Status Register(const std::string& kind, Maker maker, For whom);

  /// Registers the core's own maker of a kind for programs, which any maker from Register replaces, earlier or later.
  /// The first default of a kind counts, and later ones are ignored. Thread-safe.
  void RegisterDefault(const std::string& kind, const Maker& maker);

  /// Makes a callback of any kind. NotFound with the known kinds; else the maker's own errors. Thread-safe.
  Result<std::shared_ptr<Callback>> Make(const std::string& label, std::string_view text) const;

  /// Makes a callback for a name that a program asks for; null if the name has no kind for programs. Thread-safe.
  Result<std::shared_ptr<Callback>> MakeForProgram(std::string_view name) const;

 private:
  struct Entry {
    Maker maker;
    For whom;
  };

  Maker Find(std::string_view kind, bool for_program) const;

  mutable ForkMutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::string, Maker, std::less<>> defaults_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
