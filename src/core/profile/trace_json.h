// SPDX-License-Identifier: Apache-2.0
//
// A recording as a timeline, and the timeline as text in the Trace Event Format. A timeline has rows for each device
// (what the program's threads did), for each delivery thread, for the user's Python functions and for the phases of a
// host program. Events that overlap, since several threads ran a program at once, go to further rows of the same
// group.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/profile/recorder.h"

namespace callout::internal {

enum class RowGroup : int { kPhases, kDevice, kDelivery, kFunctions };

struct Row {
  RowGroup group;
  int32_t device;   ///< kDevice.
  uint32_t thread;  ///< kDelivery: index into the recording's threads.
  uint32_t number;  ///< Among the rows of its group, device and thread; from 0.
  std::string name;
};

struct Rows {
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Row> rows;     ///< From the top of a picture to its bottom.
  std::vector<uint32_t> of;  ///< One an event: its row, or kNone (kQueue).
};

/// Sorts the events by begin, parents first; gives what has no label its parent's label, device and worker; and finds
/// everybody's row. Within a row, spans are apart or one lies in the other.
CALLOUT_EXPORT Rows ArrangeRows(Recording& recording);

// A recording as a timeline in the Trace Event Format.

/// Appends events to a JSON array's text. One thread.
class TraceText {
 public:
  /// `process` is the `pid` of all of them.
  TraceText(int64_t process, std::string& out) : process_(process), out_(out) {}

  /// Begins an event that has the keys that all have. A `row` is a `tid`.
  TraceText& Event(char phase, std::string_view name, uint32_t row, int64_t time_ns);
  /// Names the process, or a row, and says where it stands.
  void Process(std::string_view name);
  void Row(uint32_t row, std::string_view name);

  TraceText& Duration(int64_t duration_ns);
  TraceText& Category(std::string_view category);
  TraceText& Number(std::string_view key, uint64_t value);
  TraceText& Text(std::string_view key, std::string_view value);
  /// Opens `args`; the next ones are in it, until the event's end.
  TraceText& Args();
  void End();

 private:
  void Key(std::string_view key);
  void Microseconds(int64_t nanoseconds);

  const int64_t process_;
  std::string& out_;
  bool first_event_ = true;
  bool first_key_ = true;
  bool in_args_ = false;
};

struct TraceOptions {
  int64_t process = 1;   ///< The `pid` of all events.
  int64_t shift_ns = 0;  ///< Added to all times.
  std::string process_name = "callout";
};

/// The events of a JSON array, without its brackets: spans of the rows, drops, arrows from each tap to its delivery,
/// and how full the queues were. By time. `rows` is of ArrangeRows.
CALLOUT_EXPORT std::string TraceEvents(const Recording& recording, const Rows& rows, const TraceOptions& options);

/// A whole file of them.
CALLOUT_EXPORT std::string TraceFile(const Recording& recording, const Rows& rows, const TraceOptions& options);

/// What a kind is called in a trace.
const char* KindName(ProfileKind kind);

}  // namespace callout::internal
