// SPDX-License-Identifier: Apache-2.0
#include "sinks/progress_bar.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "callout/dtype.h"
#include "core/base/ticks.h"
#include "sinks/each_sink_kind.h"

namespace callout::internal {
namespace {

// JAX counts the steps of a chunk in signed 32-bit integers.
constexpr double kMaxChunk = 1 << 30;
constexpr uint32_t kMaxGrowth = 8;

uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

void Store(uint64_t value, uint32_t* words) {
  words[0] = static_cast<uint32_t>(value);
  words[1] = static_cast<uint32_t>(value >> 32);
}

bool IsWords(const callout_buffer& buffer, uint64_t count) {
  return buffer.dtype == static_cast<uint32_t>(DType::kUint32) && buffer.size_bytes == count * sizeof(uint32_t);
}

class ProgressClock final : public Callback {
 public:
  using Callback::Callback;

  Worker worker() const override { return Worker::kNative; }
  Status Call(const callout_call& call) override {
    if (call.num_args != 2 || call.num_results != 1 || !IsWords(call.args[0], kProgressStateSize) ||
        !IsWords(call.args[1], 1) || !IsWords(call.results[0], kProgressStateSize)) {
      return InvalidArgument("the clock of progress bars takes u32[8] and u32, and returns u32[8]");
    }
    uint32_t state[kProgressStateSize];
    uint32_t interval_us;
    std::memcpy(state, call.args[0].data, sizeof(state));
    std::memcpy(&interval_us, call.args[1].data, sizeof(interval_us));
    AdvanceProgress(state, interval_us, SteadyNanoseconds(), call);
    std::memcpy(call.results[0].data, state, sizeof(state));
    return OkStatus();
  }
  Status Deliver(const Record& /*record*/) override {
    return FailedPrecondition("the clock of progress bars is called for a result; it takes no taps");
  }
};

}  // namespace

uint32_t NextChunk(uint32_t steps, int64_t elapsed_ns, int64_t interval_ns) {
  if (steps == 0) return 1;
  const double fitting = static_cast<double>(steps) * static_cast<double>(interval_ns) /
                         static_cast<double>(std::max<int64_t>(elapsed_ns, 1));
  const double most = std::min(kMaxChunk, static_cast<double>(steps) * kMaxGrowth);
  return static_cast<uint32_t>(std::clamp(fitting, 1.0, most));
}

void AdvanceProgress(std::span<uint32_t, kProgressStateSize> state, uint32_t interval_us, int64_t now_ns,
                     const callout_call& call) {
  static std::atomic<uint64_t> executions{0};
  const bool is_first = Join(state[2], state[3]) == 0;
  if (is_first) {
    Store(executions.fetch_add(1, std::memory_order_relaxed) + 1, &state[2]);  // Relaxed: only has to be unique.
    Store(static_cast<uint64_t>(call.run_id), &state[4]);
    state[6] = static_cast<uint32_t>(call.device_ordinal);
  }
  if (interval_us != 0) {
    // Programs pass the state around, so any number may come back.
    const auto elapsed_ns = static_cast<int64_t>(static_cast<uint64_t>(now_ns) - Join(state[0], state[1]));
    state[7] = NextChunk(is_first ? 0 : state[7], elapsed_ns, int64_t{interval_us} * 1000);
  }
  Store(static_cast<uint64_t>(now_ns), &state[0]);
}

Result<std::shared_ptr<Callback>> MakeProgressClock(const std::string& label, std::string_view /*payload*/) {
  return std::shared_ptr<Callback>(std::make_shared<ProgressClock>(label));
}

Result<std::shared_ptr<Callback>> MakeProgressBar(const std::string& label, std::string_view /*payload*/) {
  return MakeSink(label, NullKind(), {});
}

}  // namespace callout::internal
