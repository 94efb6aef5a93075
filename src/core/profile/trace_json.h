// SPDX-License-Identifier: Apache-2.0
//
// A recording as a timeline, and the timeline as text in the Trace Event Format. A timeline has rows for each device
// (the activity of the program's threads), for each delivery thread, for the user's Python functions and for the phases
// of a host program. Events that overlap, because several threads ran a program at once, go to further rows of the same
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
  int32_t device;   ///< Only for kDevice.
  uint32_t thread;  ///< Only for kDelivery: index into the recording's threads.
  uint32_t number;  ///< Index among the rows of its group, device and thread; from 0.
  std::string name;
};

struct Rows {
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Row> rows;     ///< From the top of the timeline to its bottom.
  std::vector<uint32_t> of;  ///< For each event its row, or kNone (kQueue).
};

/// Sorts the events by begin, parents before children. Gives an event without a label its parent's label, device and
/// worker. Finds the row of each event. The spans of a row are disjoint or nested.
CALLOUT_EXPORT Rows ArrangeRows(Recording& recording);

// The writer of the Trace Event Format.

/// Appends events to a JSON array's text. One thread.
class TraceText {
 public:
  /// Makes a writer. `process` is the `pid` of all events.
  TraceText(int64_t process, std::string& out) : process_(process), out_(out) {}

  /// Begins an event with the keys that all events have. `row` is the `tid`.
  TraceText& Event(char phase, std::string_view name, uint32_t row, int64_t time_ns);
  /// Process and Row name the process or a row, and fix its position.
  void Process(std::string_view name);
  void Row(uint32_t row, std::string_view name);

  TraceText& Duration(int64_t duration_ns);
  TraceText& Category(std::string_view category);
  TraceText& Number(std::string_view key, uint64_t value);
  TraceText& Text(std::string_view key, std::string_view value);
  /// Opens `args`: the next keys are in it, until the event's end.
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

/// Returns the events of a JSON array, without its brackets: spans of the rows, drops, arrows from each tap to its
/// delivery, and fill levels of the queues, sorted by time. `rows` comes from ArrangeRows.
CALLOUT_EXPORT std::string TraceEvents(const Recording& recording, const Rows& rows, const TraceOptions& options);

/// Returns a whole trace file.
CALLOUT_EXPORT std::string TraceFile(const Recording& recording, const Rows& rows, const TraceOptions& options);

/// Returns the name of a kind in a trace.
const char* KindName(ProfileKind kind);

}  // namespace callout::internal
