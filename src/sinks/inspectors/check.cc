// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/fork_mutex.h"
#include "core/base/log.h"
#include "core/frame/buffer.h"
#include "sinks/inspectors/check_place.h"
#include "sinks/step_counter.h"

namespace callout::internal {
namespace {

// The row-major place of the first byte that is not zero.
std::optional<uint64_t> FirstTrue(const callout_buffer& predicate) {
  const auto* bytes = static_cast<const char*>(predicate.data);
  const uint64_t n = predicate.size_bytes;
  uint64_t i = 0;
  for (uint64_t word = 0; i + sizeof(word) <= n; i += sizeof(word)) {
    std::memcpy(&word, bytes + i, sizeof(word));
    if (word != 0) break;
  }
  for (; i < n; ++i) {
    if (bytes[i] != 0) return i;
  }
  return std::nullopt;
}

class Check final : public Callback, public Inspector {
 public:
  Check(std::string label, CheckText text) : Callback(std::move(label)), text_(std::move(text)) {}

  // Its warnings are logged, and Python's loggers need the interpreter.
  Worker worker() const override { return Worker::kPython; }
  Inspector* inspector() override { return this; }
  Status Call(const callout_call& /*call*/) override {
    return FailedPrecondition("a check looks at taps; it cannot be called for a result");
  }
  Status CheckTap(size_t num_leaves) const override {
    if (num_leaves == text_.operands.size()) return OkStatus();
    return InvalidArgument("callout: a check of " + std::to_string(text_.operands.size()) + " arrays got " +
                           std::to_string(num_leaves));
  }
  Status Deliver(const Record& record) override;
  Result<Send> Inspect(const Record& record) override;
  bool Passes(std::span<const callout_buffer> buffers) override {
    return !counts_steps_ && Validate(buffers).ok() && !FirstTrue(buffers.front());
  }

 private:
  Status Validate(std::span<const callout_buffer> buffers) const;
  int64_t NextStep(const Record& record);
  Result<Send> Fire(const Record& record, int64_t first);
  std::string Describe(const Record& record, int64_t first, uint64_t times) const;

  const CheckText text_;
  const bool counts_steps_ = text_.format.find("{step") != std::string::npos;
  std::atomic<uint64_t> times_{0};  // that it was true
  Mutex mutex_;
  StepCounter steps_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ CALLOUT_GUARDED_BY(mutex_);
};

Status Check::Validate(std::span<const callout_buffer> buffers) const {
  if (buffers.size() != text_.operands.size()) [[unlikely]]
    return CheckTap(buffers.size());
  const callout_buffer& predicate = buffers.front();
  if (static_cast<DType>(predicate.dtype) != DType::kBool) {
    return InvalidArgument("callout: the predicate of a check must be bool, got " + ShapeString(predicate));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (BitWidth(static_cast<DType>(buffers[i].dtype)) % 8 != 0) {
      return InvalidArgument("callout: operand " + std::to_string(i) + " of a check, " + ShapeString(buffers[i]) +
                             ", packs elements into bytes");
    }
    const uint32_t lanes = text_.operands[i].lane_mask;
    if (lanes == 0 || buffers[i].rank >= static_cast<uint32_t>(std::popcount(lanes))) continue;
    return InvalidArgument("callout: operand " + std::to_string(i) + " of a check, " + ShapeString(buffers[i]) +
                           ", has fewer dimensions than its program says");
  }
  return OkStatus();
}

std::string Check::Describe(const Record& record, int64_t first, uint64_t times) const {
  const CheckPlace place = PlaceOf(text_, record, first);
  std::string text = "check failed: " + TextAt(text_, record, place) + " (" + place.Describe();
  if (times > 1) text += ", " + std::to_string(times) + " times so far";
  if (!text_.source.empty()) text += "; " + text_.source;
  return text + ")";
}

int64_t Check::NextStep(const Record& record) {
  MutexLock lock(mutex_);
  return steps_.Next(record);
}

Result<Inspector::Send> Check::Inspect(const Record& record) {
  CALLOUT_RETURN_IF_ERROR(Validate(record.buffers));
  const std::optional<uint64_t> first = FirstTrue(record.buffers.front());
  if (counts_steps_ && !record.step) [[unlikely]] {
    Record counted = record;
    counted.step = NextStep(record);
    return first ? Fire(counted, static_cast<int64_t>(*first)) : Send::kNothing;
  }
  if (!first) [[likely]]
    return Send::kNothing;
  return Fire(record, static_cast<int64_t>(*first));
}

[[gnu::noinline, gnu::cold]] Result<Inspector::Send> Check::Fire(const Record& record, int64_t first) {
  if (text_.fails) return InternalError(Describe(record, first, 1));
  const uint64_t times = times_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!std::has_single_bit(times)) return Send::kNothing;
  MutexLock lock(mutex_);
  warnings_.push_back(Describe(record, first, times));
  return Send::kNotice;
}

Status Check::Deliver(const Record& /*record*/) {
  std::vector<std::string> warnings;
  {
    MutexLock lock(mutex_);
    warnings.swap(warnings_);
  }
  for (const std::string& warning : warnings) Log(LogLevel::kWarning, warning);
  return OkStatus();
}

}  // namespace

std::shared_ptr<Callback> MakeCheck(std::string label, CheckText text) {
  return std::make_shared<Check>(std::move(label), std::move(text));
}

Result<std::shared_ptr<Callback>> MakeCheckOf(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(CheckText text, ParseCheck(payload));
  return MakeCheck(label, std::move(text));
}

}  // namespace callout::internal
