// SPDX-License-Identifier: Apache-2.0
//
// The clock of progress bars. Between its chunks of steps, a loop with a progress bar asks which execution of the loop
// this is, and how many steps the next chunk may have to take about the wanted time. All state belongs to the loop,
// u32[8]:
//
//   0 1  when the loop last asked, in nanoseconds of the steady clock (low, high)
//   2 3  a number that no other execution of a loop in this process has (low, high); 0 before the first call
//   4 5  the run of the program (low, high)
//   6    the device
//   7    the number of steps in a chunk
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

/// The kind of callback that is the clock. A program calls the clock by the name "progress_clock:".
inline constexpr std::string_view kProgressClockKind = "progress_clock";
inline constexpr size_t kProgressStateSize = 8;

/// Makes the clock, and ignores the payload. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeProgressClock(const std::string& label, std::string_view payload);

/// Returns the number of steps of the next chunk, after a chunk of `steps` steps (0: there was none) took `elapsed_ns`.
/// The number grows by a factor of at most 8, because a few quick steps say little about the next ones.
CALLOUT_EXPORT uint32_t NextChunk(uint32_t steps, int64_t elapsed_ns, int64_t interval_ns);

/// Advances `state` at the time `now_ns`.
CALLOUT_EXPORT void AdvanceProgress(std::span<uint32_t, kProgressStateSize> state, uint32_t interval_us, int64_t now_ns,
                                    const callout_call& call);

/// The kind of callback that gets the messages of a progress bar. A program refers to it by the name
/// "progress_bar:PAYLOAD". In a process with Python, Python draws the bar.
inline constexpr std::string_view kProgressBarKind = "progress_bar";

/// Makes a sink that discards the bar's messages, for processes without Python. The payload is ignored. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeProgressBar(const std::string& label, std::string_view payload);

}  // namespace callout::internal
