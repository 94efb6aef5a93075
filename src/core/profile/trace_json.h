// SPDX-License-Identifier: Apache-2.0
//
// A recording as a timeline in the Trace Event Format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/profile/timeline.h"

namespace callout::internal {

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
