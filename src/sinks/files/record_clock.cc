// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/record_clock.h"

#include <charconv>
#include <cmath>

#include "core/base/ticks.h"

namespace callout::internal {

void RecordClock::Read() {
  constexpr uint64_t kMany = uint64_t{1} << 40U;
  const double nanoseconds = TicksToNanoseconds(kMany);
  second_ticks_ = nanoseconds > 0 ? static_cast<uint64_t>(static_cast<double>(kMany) / nanoseconds * 1e9) : 1;
  tick_seconds_ = 1 / static_cast<double>(second_ticks_);
  anchor_ticks_ = Ticks();
  anchor_seconds_ = WallSecondsAt(anchor_ticks_);
}

void RecordClock::Append(uint64_t ticks, std::string& out) {
  constexpr int64_t kMicroseconds = 1'000'000;
  constexpr size_t kDigits = 6;
  const int64_t microseconds = std::llround(SecondsAt(ticks) * static_cast<double>(kMicroseconds));
  char text[32];
  // One in front, which becomes the point, keeps the zeros.
  char* const point = std::to_chars(text, text + sizeof(text), microseconds / kMicroseconds).ptr;
  std::to_chars(point, text + sizeof(text), kMicroseconds + microseconds % kMicroseconds);
  *point = '.';
  out.append(text, static_cast<size_t>(point - text) + 1 + kDigits);
}

}  // namespace callout::internal
