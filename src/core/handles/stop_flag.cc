// SPDX-License-Identifier: Apache-2.0
#include "core/handles/stop_flag.h"

#include <array>
#include <chrono>

#include "callout/dtype.h"
#include "core/base/ticks.h"

namespace callout::internal {
namespace {

constexpr uint64_t kBetweenLooks = 8;  // microseconds, about

Answer AnswerOf(bool value) {
  HostArray array{.dtype = static_cast<uint32_t>(DType::kBool), .dims = {}, .data = {std::byte{value}}};
  return std::make_shared<const std::vector<HostArray>>(std::vector<HostArray>{std::move(array)});
}

}  // namespace

const Answer& StopFlag::Now() const {
  static const auto* const answers = new std::array<Answer, 2>{AnswerOf(false), AnswerOf(true)};
  return (*answers)[IsSet() ? 1 : 0];
}

Answer StopFlag::Read() const { return Now(); }

Status StopFlag::ReadInto(const Wanted& wanted) const { return Write(*Now(), wanted); }

bool StopFlag::IsSet() const {
  if (is_set_.load(std::memory_order_acquire)) return true;  // pairs with Set
  const int64_t deadline = deadline_ns_.load(std::memory_order_relaxed);
  if (deadline == kNever) return false;
  // Reading the steady clock costs as much as the rest of this function, so the clock is read once in some
  // microseconds.
  const uint64_t now = Ticks();
  const uint64_t looked_at = looked_at_.load(std::memory_order_relaxed);
  if (looked_at != 0 && now - looked_at < kBetweenLooks * TicksOfMicroseconds()) return false;
  const bool is_over = SteadyNanoseconds() >= deadline;
  looked_at_.store(is_over ? 0 : now, std::memory_order_relaxed);
  return is_over;
}

void StopFlag::Clear() {
  StartTimer();
  is_set_.store(false, std::memory_order_release);  // pairs with IsSet
}

void StopFlag::StartTimer() {
  const std::chrono::steady_clock::time_point end = DeadlineAfter(seconds_);
  const bool ends = end != std::chrono::steady_clock::time_point::max();
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(end.time_since_epoch());
  looked_at_.store(0, std::memory_order_relaxed);
  deadline_ns_.store(ends ? since.count() : kNever, std::memory_order_relaxed);
}

}  // namespace callout::internal
