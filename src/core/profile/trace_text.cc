// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trace_text.h"

#include <array>
#include <charconv>

#include "core/encoding/json.h"

namespace callout::internal {
namespace {

void AppendNumber(int64_t number, std::string& out) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  out.append(text.data(), end);
}

}  // namespace

TraceText& TraceText::Event(char phase, std::string_view name, uint32_t row, int64_t time_ns) {
  if (!first_event_) out_ += ",\n";
  first_event_ = false;
  first_key_ = true;
  out_ += '{';
  Text("ph", {&phase, 1}).Text("name", name);
  Key("pid");
  AppendNumber(process_, out_);
  Key("tid");
  AppendNumber(row, out_);
  Key("ts");
  Microseconds(time_ns);
  return *this;
}

void TraceText::Process(std::string_view name) { Event('M', "process_name", 0, 0).Args().Text("name", name).End(); }

void TraceText::Row(uint32_t row, std::string_view name) {
  Event('M', "thread_name", row, 0).Args().Text("name", name).End();
  Event('M', "thread_sort_index", row, 0).Args().Number("sort_index", row).End();
}

TraceText& TraceText::Duration(int64_t duration_ns) {
  Key("dur");
  Microseconds(duration_ns);
  return *this;
}

TraceText& TraceText::Category(std::string_view category) { return Text("cat", category); }

TraceText& TraceText::Number(std::string_view key, uint64_t value) {
  Key(key);
  out_ += std::to_string(value);
  return *this;
}

TraceText& TraceText::Text(std::string_view key, std::string_view value) {
  Key(key);
  AppendJsonString(value, out_);
  return *this;
}

TraceText& TraceText::Args() {
  Key("args");
  out_ += '{';
  in_args_ = first_key_ = true;
  return *this;
}

void TraceText::End() {
  out_ += in_args_ ? "}}" : "}";
  in_args_ = false;
}

void TraceText::Key(std::string_view key) {
  if (!first_key_) out_ += ',';
  first_key_ = false;
  out_ += '"';
  out_ += key;
  out_ += "\":";
}

// Three decimals, exactly.
void TraceText::Microseconds(int64_t nanoseconds) {
  if (nanoseconds < 0) out_ += '-';
  const int64_t magnitude = nanoseconds < 0 ? -nanoseconds : nanoseconds;
  AppendNumber(magnitude / 1000, out_);
  const auto rest = static_cast<int>(magnitude % 1000);
  const char decimals[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                           static_cast<char>('0' + rest % 10)};
  out_.append(decimals, sizeof(decimals));
}

}  // namespace callout::internal
