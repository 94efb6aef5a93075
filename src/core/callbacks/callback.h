// SPDX-License-Identifier: Apache-2.0
//
// What a program calls: a Python function, a native function or a sink, behind one interface (Callback); and
// callbacks that are made of text (Makers).
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

/// Which threads deliver a callback's tap records. Python code shares one interpreter lock; native code must never
/// wait for it.
enum class Worker : int { kPython = 0, kNative = 1 };
inline constexpr int kWorkerCount = 2;

/// Counters of all callbacks of one label. Any thread adds, any thread reads; a sum read while others add may be of
/// slightly different moments.
struct CallbackStats {
  std::atomic<uint64_t> calls{0};       ///< Less `passes`: see all_calls.
  std::atomic<uint64_t> bytes{0};       ///< Operands and results, less those of `passes`: see all_bytes.
  std::atomic<uint64_t> host_ticks{0};  ///< Time inside the callback, see base/ticks.h. Sampled, see invoke.cc.
  std::atomic<uint64_t> drops{
      0};  ///< Records that a full or closed queue did not take, or for which there was no memory.
  std::atomic<uint64_t> skips{0};  ///< Records that `every`, `min_interval` or `sample` left out.
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> passes{0};               ///< Further calls, of `pass_bytes` each: see CountPass.
  std::atomic<uint64_t> pass_bytes{kNoPassYet};  ///< Never changes again.
  std::atomic<bool> tap_error_logged{false};
  std::atomic<bool> takes_long{false};     ///< The last call that was timed did.
  std::atomic<uint64_t> profile_label{0};  ///< Cache of ProfileLabel, see profile/recorder.h.

  static constexpr uint64_t kNoPassYet = std::numeric_limits<uint64_t>::max();

  /// Counts a call of `size` bytes: by one locked addition if that is the size of the first one. Thread-safe.
  void CountPass(uint64_t size) {
    uint64_t each = pass_bytes.load(std::memory_order_relaxed);
    if (each == kNoPassYet) [[unlikely]]
      each = pass_bytes.compare_exchange_strong(each, size, std::memory_order_relaxed) ? size : each;
    if (each == size) [[likely]] {
      passes.fetch_add(1, std::memory_order_release);  // pairs with all_bytes: who sees it sees `pass_bytes`
      return;
    }
    calls.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(size, std::memory_order_relaxed);
  }
  /// How many calls there were. Thread-safe.
  uint64_t all_calls() const { return calls.load(std::memory_order_relaxed) + passes.load(std::memory_order_relaxed); }
  /// How many bytes they had. Thread-safe.
  uint64_t all_bytes() const {
    const uint64_t count = passes.load(std::memory_order_acquire);  // pairs with CountPass
    const uint64_t others = bytes.load(std::memory_order_relaxed);
    return count == 0 ? others : others + count * pass_bytes.load(std::memory_order_relaxed);
  }

  /// Begins all counts anew, and tells of a tap's first error again.
  void Reset() {
    for (auto* count : {&calls, &bytes, &host_ticks, &drops, &skips, &errors, &passes})
      count->store(0, std::memory_order_relaxed);
    tap_error_logged.store(false, std::memory_order_relaxed);
  }
};

/// What a tap's place in the program tells the receiver of its records.
struct SiteInfo {
  std::string label;
  std::vector<std::string> leaf_names;  ///< One a buffer, "" for a value that is a single array.
  bool has_offsets = false;             ///< A last buffer, s64[n], says where in the whole value its shard begins.
  bool has_step = false;                ///< Records come with a step.
  uint64_t id = 0;                      ///< Of one place in the process, which nothing else had; 0: none.
};

/// `step + more`, or the largest number there is: programs say what they like. `more` is not negative.
inline int64_t StepAfter(int64_t step, int64_t more) {
  int64_t sum = 0;
  return __builtin_add_overflow(step, more, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

/// One value that left the program.
struct Record {
  const SiteInfo* site = nullptr;
  std::span<const callout_buffer> buffers = {};
  /// One a buffer: the block (base/block_pool.h) that a large buffer's data lies in, or null. The receiver may take
  /// ownership by setting it to null; otherwise everything here is Borrowed: valid until Deliver returns.
  void** blocks = nullptr;
  /// Where in the whole value this shard begins: for all dimensions of all buffers in turn. Empty: it is the whole.
  std::span<const int64_t> offsets = {};
  int32_t device_ordinal = 0;
  int64_t run_id = 0;
  uint64_t sequence = 0;             ///< Counts the records of one device and worker.
  uint64_t ticks = 0;                ///< When it was taken, see base/ticks.h; 0 for an Inspector, to which that is now.
  std::optional<int64_t> step = {};  ///< What the tap was told by `step=`.
  /// How often its place in the program was reached since the last record from there, without sending one (`every`,
  /// a full queue).
  uint32_t unsent = 0;
};

/// A record as the call of a function without results. Borrowed: valid as long as the record.
CALLOUT_EXPORT callout_call AsCall(const Record& record);

/// Looks at a tap's value where it lies, before it is copied. Called inside the program, on an XLA thread; several
/// threads may be in it.
class Inspector {
 public:
  virtual ~Inspector() = default;
  enum class Send { kNothing, kNotice, kRecord };
  /// What is to be delivered: nothing, a record without its arrays, or all of it. An error fails the program. Borrowed:
  /// `record` is valid until it returns, and nothing of it may be kept.
  virtual Result<Send> Inspect(const Record& record) = 0;
  /// True if Inspect would say kNothing of a record with these arrays, whatever else it says, and need not be asked.
  /// False if that cannot be told from the arrays alone. Borrowed: as the record of Inspect.
  virtual bool Passes(std::span<const callout_buffer> /*buffers*/) { return false; }
};

class CALLOUT_EXPORT Callback {
 public:
  /// `label` is what people read: the function's qualified name or the name it was registered under.
  explicit Callback(std::string label);
  virtual ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  virtual Worker worker() const = 0;
  /// True if `Call` understands buffers that are not the host's memory, see callout_platform.
  virtual bool takes_device_memory() const { return false; }
  /// True if `Call` is always refused.
  virtual bool takes_taps_only() const { return false; }
  /// Whose logger messages about this callback are for.
  virtual LogSource log_source() const { return LogSource::kCore; }
  /// Runs inside the program, on an XLA thread; several threads may be in it. GIL not needed. `call` has no
  /// `set_error`: errors are returned. Its `error_context` is the program's XLA_FFI_CallFrame, null for an eager call.
  virtual Status Call(const callout_call& call) = 0;
  /// Whether it takes taps of so many arrays. Asked when a program is loaded: no record of others comes. Thread-safe.
  virtual Status CheckTap(size_t /*num_leaves*/) const { return OkStatus(); }
  /// Takes a tap's record on the worker's thread.
  virtual Status Deliver(const Record& record) = 0;
  /// Called when a batch is over, before a barrier takes its records for delivered. On the worker's thread.
  virtual Status Flush() { return OkStatus(); }
  /// What looks at the records first; null if nothing does. Borrowed: valid as long as this object.
  virtual Inspector* inspector() { return nullptr; }
  /// What the callback says of its parameters; empty if it does not. Borrowed: valid as long as this object.
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

/// Label of the live callback with this id, "" if there is none. Thread-safe.
CALLOUT_EXPORT std::string LabelOf(uint64_t callback_id);

// Callbacks made of text: "kind:payload", by the maker of that kind. A host makes any of them; a program, which may
// come from anywhere, only those of kinds that are for programs.

class CALLOUT_EXPORT Makers {
 public:
  /// `payload` is what stands behind the first ':', empty if there is none. Called without locks.
  using Maker = std::function<Result<std::shared_ptr<Callback>>(const std::string& label, std::string_view payload)>;
  enum class For { kHosts, kPrograms };

  /// The process's makers; never destroyed. Thread-safe.
  static Makers& Get();

  /// InvalidArgument for a kind that is empty or has a ':', AlreadyExists for one that is taken. Thread-safe.
  Status Register(const std::string& kind, Maker maker, For whom);

  /// What the core itself makes of a kind for programs, where nobody registers another maker: before or after. The
  /// first counts. Thread-safe.
  void RegisterDefault(const std::string& kind, const Maker& maker);

  /// NotFound with the known kinds; else the maker's own errors. Thread-safe.
  Result<std::shared_ptr<Callback>> Make(const std::string& label, std::string_view text) const;

  /// For a name that a program asks for: null if it is none of a kind for programs. Thread-safe.
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
