// SPDX-License-Identifier: Apache-2.0
//
// The events of a profile.
#pragma once

#include <cstdint>

namespace callout::internal {

/// The kinds of events. Python reads the numbers (callout/_measuring/profile/recording.py).
enum class ProfileKind : uint8_t {
  kCall = 0,      ///< A callback that the program, or its eager caller, waits for.
  kTap = 1,       ///< A value is copied into a queue.
  kDrop = 2,      ///< A queue rejects a value.
  kRoomWait = 3,  ///< A tap waits for room in its queue.
  kTapWait = 4,   ///< An ordered call waits for the delivery of earlier taps.
  kDelivery = 5,  ///< A callback gets a tap's record.
  kFlush = 6,     ///< A callback ends a batch of records.
  kGilWait = 7,   ///< A thread waits for Python's interpreter lock.
  kCopy = 8,      ///< Arguments or results of a Python function are copied.
  kFunction = 9,  ///< The user's Python function runs.
  kQueue = 10,    ///< The fill level of a queue.
  kPhase = 11,    ///< A phase of a host program, on a row of its own.
};
inline constexpr int kProfileKinds = 12;

struct ProfileEvent {
  int64_t begin = 0;    ///< Ticks (base/ticks.h) during the recording, afterwards nanoseconds since its begin.
  int64_t end = 0;      ///< In the unit of `begin`.
  int64_t queued = 0;   ///< kTap and kDelivery: when the tap ran, in the unit of `begin`; 0: no record.
  uint64_t flow = 0;    ///< The same number for kTap and kDelivery of one record, see FlowOf. 0: none.
  uint64_t bytes = 0;   ///< Operands and results.
  uint64_t level = 0;   ///< kTap and kQueue: bytes in the queue at `queued` and `begin`.
  uint32_t label = 0;   ///< Index into the recording's labels. 0: none.
  int32_t device = -1;  ///< FFI ordinal.
  uint32_t thread = 0;  ///< Index into the recording's threads.
  ProfileKind kind = ProfileKind::kCall;
  uint8_t worker = 0;  ///< A value of the enum Worker of callbacks/callback.h.
  uint8_t failed = 0;
  uint8_t eager = 0;  ///< kCall: made outside of a compiled program.
};
static_assert(sizeof(ProfileEvent) == 64);

/// Returns the number of a record by its place in its queue: unique in a process, and never 0.
inline uint64_t FlowOf(uint8_t worker, int32_t device, uint64_t sequence) {
  constexpr uint64_t kSequenceBits = 40;
  const uint64_t queue = (static_cast<uint64_t>(static_cast<uint32_t>(device)) & 0x3fffff) << 1 | worker;
  return (queue + 1) << kSequenceBits | (sequence & ((uint64_t{1} << kSequenceBits) - 1));
}

}  // namespace callout::internal
