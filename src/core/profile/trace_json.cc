// SPDX-License-Identifier: Apache-2.0
#include "core/profile/trace_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "core/base/cat.h"
#include "core/encoding/json.h"

namespace callout::internal {
namespace {

using GroupKey = std::tuple<RowGroup, int32_t, uint32_t>;  // the first three members of Row

struct GroupRows {
  std::vector<int64_t> free_from;  // for each row, the end of its last span
};

bool IsPoint(const ProfileEvent& event) { return event.kind == ProfileKind::kQueue; }

// Sorts parents before their children. The recorder has them in the other order, because an outer span ends later.
void SortEvents(std::vector<ProfileEvent>& events) {
  std::vector<uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    const ProfileEvent& a = events[left];
    const ProfileEvent& b = events[right];
    return std::tuple(a.begin, -a.end, right) < std::tuple(b.begin, -b.end, left);
  });
  std::vector<ProfileEvent> sorted;
  sorted.reserve(events.size());
  for (const uint32_t i : order) sorted.push_back(events[i]);
  events = std::move(sorted);
}

GroupKey GroupOf(const ProfileEvent& event, const ProfileThread& thread, const GroupKey* parent) {
  switch (event.kind) {
    case ProfileKind::kFunction:
      return {RowGroup::kFunctions, -1, 0};
    case ProfileKind::kPhase:
      return {RowGroup::kPhases, -1, 0};
    case ProfileKind::kCall:
    case ProfileKind::kTap:
    case ProfileKind::kDrop:
      return {RowGroup::kDevice, event.device, 0};
    default:
      break;
  }
  if (thread.delivers) return {RowGroup::kDelivery, -1, event.thread};
  return parent != nullptr ? *parent : GroupKey{RowGroup::kDevice, event.device, 0};
}

std::string NameOf(const GroupKey& key, uint32_t number, const Recording& recording) {
  const auto& [group, device, thread] = key;
  std::string name;
  if (group == RowGroup::kPhases) name = "phases";
  if (group == RowGroup::kDevice) name = device < 0 ? "no device" : Cat("device ", device);
  if (group == RowGroup::kDelivery) name = "delivery thread " + recording.threads[thread].name;
  if (group == RowGroup::kFunctions) name = "Python functions";
  return number == 0 ? name : Cat(name, " (", number + 1, ")");
}

class Arranger {
 public:
  explicit Arranger(Recording& recording) : recording_(recording), open_(recording.threads.size()) {}

  Rows Run() {
    std::vector<ProfileEvent>& events = recording_.events;
    keys_.resize(events.size());
    rows_.of.assign(events.size(), Rows::kNone);
    for (uint32_t i = 0; i < events.size(); ++i) {
      if (!IsPoint(events[i])) Place(i);
    }
    Number();
    return std::move(rows_);
  }

 private:
  void Place(uint32_t i) {
    ProfileEvent& event = recording_.events[i];
    std::vector<uint32_t>& open = open_[event.thread];
    while (!open.empty() && recording_.events[open.back()].end <= event.begin) open.pop_back();
    const ProfileEvent* parent = open.empty() ? nullptr : &recording_.events[open.back()];
    if (parent != nullptr) {
      // Time stamps of two nested spans may be out of order by a few ticks.
      event.end = std::min(event.end, parent->end);
      if (event.label == 0) {
        event.label = parent->label;
        event.device = parent->device;
        event.worker = parent->worker;
      }
    }
    const GroupKey* parent_key = open.empty() ? nullptr : &keys_[open.back()];
    keys_[i] = GroupOf(event, recording_.threads[event.thread], parent_key);
    const auto outer = std::find_if(open.rbegin(), open.rend(), [&](uint32_t each) { return keys_[each] == keys_[i]; });
    rows_.of[i] = outer != open.rend() ? rows_.of[*outer] : FreeRow(keys_[i], event);
    open.push_back(i);
  }

  // Returns the first row of the group that is free at the event's time, as its number in the group.
  uint32_t FreeRow(const GroupKey& key, const ProfileEvent& event) {
    std::vector<int64_t>& free_from = groups_[key].free_from;
    const auto row =
        std::find_if(free_from.begin(), free_from.end(), [&](int64_t free) { return free <= event.begin; });
    const auto number = static_cast<uint32_t>(row - free_from.begin());
    if (row == free_from.end()) free_from.push_back(0);
    free_from[number] = event.end;
    return number;
  }

  // Replaces rows' numbers in their group by numbers in the timeline.
  void Number() {
    std::map<GroupKey, uint32_t> first;
    for (const auto& [key, group] : groups_) {
      first[key] = static_cast<uint32_t>(rows_.rows.size());
      const auto& [kind, device, thread] = key;
      for (uint32_t number = 0; number < group.free_from.size(); ++number) {
        rows_.rows.push_back({kind, device, thread, number, NameOf(key, number, recording_)});
      }
    }
    for (size_t i = 0; i < rows_.of.size(); ++i) {
      if (rows_.of[i] != Rows::kNone) rows_.of[i] += first[keys_[i]];
    }
  }

  Recording& recording_;
  std::vector<std::vector<uint32_t>> open_;  // for each thread, the spans that may contain the next event
  std::vector<GroupKey> keys_;               // one for each event
  std::map<GroupKey, GroupRows> groups_;
  Rows rows_;
};

}  // namespace

Rows ArrangeRows(Recording& recording) {
  SortEvents(recording.events);
  return Arranger(recording).Run();
}

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

// Writes exactly three decimals.
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

constexpr size_t kBytesAnEvent = 190;  // approximate; memory is reserved once

// An item to write. One event may have several items, at different times.
struct Item {
  enum class What : uint8_t { kSpan, kLevel, kFlowBegin, kFlowEnd };
  int64_t time_ns;
  uint32_t event;
  What what;
};

// Among items of one time, spans come first, in the order of the events: parents before children.
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
  // Finds the arrows whose tap and delivery are both in the recording.
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
    return Cat(event.worker == 0 ? "python" : "native", " queue of device ", event.device);
  }

  const Recording& recording_;
  const Rows& rows_;
  const TraceOptions& options_;
  TraceText text_;
  std::unordered_map<uint32_t, uint64_t> flows_;  // flow of each event
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
  out += Cat(recording.left_out, R"(,"duration_ns":)", recording.duration_ns);
  out += R"(},"traceEvents":[)"
         "\n";
  out += TraceEvents(recording, rows, options);
  out += "\n]}\n";
  return out;
}

}  // namespace callout::internal
