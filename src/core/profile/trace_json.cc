// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trace_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

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

namespace {

constexpr size_t kBytesAnEvent = 190;  // about; room is made once

// Something to write: of one event there may be several, at different times.
struct Item {
  enum class What : uint8_t { kSpan, kLevel, kFlowBegin, kFlowEnd };
  int64_t time_ns;
  uint32_t event;
  What what;
};

// Spans come first of what is at one time, in the order of the events: parents before children.
bool operator<(const Item& a, const Item& b) {
  return std::tuple(a.time_ns, a.what, a.event) < std::tuple(b.time_ns, b.what, b.event);
}

class Writer {
 public:
  Writer(const Recording& recording, const Rows& rows, const TraceOptions& options, std::string& out)
      : recording_(recording), rows_(rows), options_(options), text_(options.process, out) {}

  void Run() {
    text_.Process(options_.process_name);
    for (uint32_t row = 0; row < rows_.rows.size(); ++row) text_.Row(row + 1, rows_.rows[row].name);
    FindFlows();
    for (const Item& item : Items()) Write(item);
  }

 private:
  // Both ends of an arrow must be there.
  void FindFlows() {
    std::unordered_map<uint64_t, uint32_t> taps;
    const auto& events = recording_.events;
    for (uint32_t i = 0; i < events.size(); ++i) {
      if (events[i].kind == ProfileKind::kTap && events[i].flow != 0) taps[events[i].flow] = i;
    }
    for (uint32_t i = 0; i < events.size(); ++i) {
      if (events[i].kind != ProfileKind::kDelivery || events[i].flow == 0) continue;
      const auto tap = taps.find(events[i].flow);
      if (tap == taps.end() || events[tap->second].begin > events[i].begin) continue;
      flows_[i] = flows_[tap->second] = ++num_flows_;
    }
  }

  std::vector<Item> Items() const {
    std::vector<Item> items;
    const auto& events = recording_.events;
    items.reserve(events.size() * 2);
    for (uint32_t i = 0; i < events.size(); ++i) {
      const ProfileEvent& event = events[i];
      if (event.kind != ProfileKind::kQueue) items.push_back({event.begin, i, Item::What::kSpan});
      if (event.kind == ProfileKind::kQueue) items.push_back({event.begin, i, Item::What::kLevel});
      if (event.kind == ProfileKind::kTap) items.push_back({event.queued, i, Item::What::kLevel});
      if (!flows_.contains(i)) continue;
      const bool begins = event.kind == ProfileKind::kTap;
      items.push_back({event.begin, i, begins ? Item::What::kFlowBegin : Item::What::kFlowEnd});
    }
    std::sort(items.begin(), items.end());
    return items;
  }

  void Write(const Item& item) {
    const ProfileEvent& event = recording_.events[item.event];
    const int64_t time_ns = item.time_ns + options_.shift_ns;
    const uint32_t row = rows_.of[item.event] + 1;
    switch (item.what) {
      case Item::What::kSpan:
        return Span(event, row, time_ns);
      case Item::What::kLevel:
        return text_.Event('C', QueueName(event), 0, time_ns).Args().Number("bytes", event.level).End();
      case Item::What::kFlowBegin:
        return Flow('s', item.event, row, time_ns).End();
      case Item::What::kFlowEnd:
        return Flow('f', item.event, row, time_ns).Text("bp", "e").End();
    }
  }

  TraceText& Flow(char phase, uint32_t event, uint32_t row, int64_t time_ns) {
    return text_.Event(phase, "record", row, time_ns).Category("record").Number("id", flows_.at(event));
  }

  void Span(const ProfileEvent& event, uint32_t row, int64_t time_ns) {
    const bool is_drop = event.kind == ProfileKind::kDrop;
    text_.Event(is_drop ? 'i' : 'X', NameOf(event), row, time_ns);
    if (is_drop) {
      text_.Text("s", "t");  // an instant of its row
    } else {
      text_.Duration(event.end - event.begin);
    }
    text_.Category(KindName(event.kind)).Args();
    if (event.device >= 0) text_.Number("device", static_cast<uint64_t>(event.device));
    if (event.bytes > 0) text_.Number("bytes", event.bytes);
    if (event.failed != 0) text_.Number("failed", 1);
    if (event.kind == ProfileKind::kDelivery && event.flow != 0) {
      text_.Number("queued_ns", static_cast<uint64_t>(std::max<int64_t>(event.begin - event.queued, 0)));
    }
    text_.End();
  }

  std::string NameOf(const ProfileEvent& event) const {
    const std::string& label = recording_.labels[event.label];
    switch (event.kind) {
      case ProfileKind::kCall:
      case ProfileKind::kTap:
      case ProfileKind::kDelivery:
      case ProfileKind::kFunction:
      case ProfileKind::kPhase:
        return label.empty() ? "(other)" : label;
      case ProfileKind::kDrop:
      case ProfileKind::kFlush:
        return KindName(event.kind) + (" " + label);
      default:
        return KindName(event.kind);
    }
  }

  static std::string QueueName(const ProfileEvent& event) {
    return std::string(event.worker == 0 ? "python" : "native") + " queue of device " + std::to_string(event.device);
  }

  const Recording& recording_;
  const Rows& rows_;
  const TraceOptions& options_;
  TraceText text_;
  std::unordered_map<uint32_t, uint64_t> flows_;  // by event
  uint64_t num_flows_ = 0;
};

}  // namespace

const char* KindName(ProfileKind kind) {
  constexpr const char* kNames[kProfileKinds] = {"call",          "tap",      "drop",  "wait for room",
                                                 "wait for taps", "delivery", "flush", "wait for GIL",
                                                 "copy",          "function", "queue", "phase"};
  return kNames[static_cast<size_t>(kind)];
}

std::string TraceEvents(const Recording& recording, const Rows& rows, const TraceOptions& options) {
  std::string out;
  out.reserve(recording.events.size() * kBytesAnEvent);
  Writer(recording, rows, options, out).Run();
  return out;
}

std::string TraceFile(const Recording& recording, const Rows& rows, const TraceOptions& options) {
  std::string out = R"({"displayTimeUnit":"ns","otherData":{"events_left_out":)";
  out += std::to_string(recording.left_out) + R"(,"duration_ns":)" + std::to_string(recording.duration_ns);
  out += R"(},"traceEvents":[)"
         "\n";
  out += TraceEvents(recording, rows, options);
  out += "\n]}\n";
  return out;
}

}  // namespace callout::internal
