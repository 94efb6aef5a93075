// SPDX-License-Identifier: Apache-2.0
//
// The text of one event after the other in the Trace Event Format, which Perfetto and chrome://tracing show. Their unit
// is the microsecond; times here are nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace callout::internal
