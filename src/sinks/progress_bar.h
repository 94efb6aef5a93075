// SPDX-License-Identifier: Apache-2.0
//
// What a loop with a progress bar asks between its chunks of steps: which execution of the loop this is, and how many
// steps the next chunk may have so that it takes about as long as it should. All state is the loop's own, u32[8]:
//
//   0 1  when it asked last, steady nanoseconds (low, high)
//   2 3  a number that no other execution of a loop in this process has (low, high); 0 before the first call
//   4 5  the run of the program (low, high)
//   6    the device
//   7    steps in a chunk
//
// The second operand is the time that a chunk should take, u32 microseconds. 0: chunks keep their length.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// A program names the clock "progress_clock:".
inline constexpr std::string_view kProgressClockKind = "progress_clock";
inline constexpr size_t kProgressStateSize = 8;

/// The clock, whatever the payload is. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeProgressClock(const std::string& label, std::string_view payload);

/// Steps of the next chunk, after one of `steps` (0: there was none) that took `elapsed_ns`. Grows 8 times at most, so
/// that a few quick steps do not promise too much.
CALLOUT_EXPORT uint32_t NextChunk(uint32_t steps, int64_t elapsed_ns, int64_t interval_ns);

/// `state` as it goes on at `now_ns`.
CALLOUT_EXPORT void AdvanceProgress(std::span<uint32_t, kProgressStateSize> state, uint32_t interval_us, int64_t now_ns,
                                    const callout_call& call);

// A progress bar that a program carries, as the name "progress_bar:PAYLOAD". Python draws it.

inline constexpr std::string_view kProgressBarKind = "progress_bar";

/// Without Python: takes the bar's messages and forgets them, whatever the payload is. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeProgressBar(const std::string& label, std::string_view payload);

}  // namespace callout::internal
