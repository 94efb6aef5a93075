// SPDX-License-Identifier: Apache-2.0
//
// Statistics in Prometheus' text exposition format, version 0.0.4: the names of callout.stats().prometheus() in Python.
#include <charconv>
#include <iterator>
#include <utility>

#include "base/live_count.h"
#include "callout/pjrt/host_callback.h"
#include "delivery/delivery.h"

namespace callout::pjrt {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

// One metric: its head, and a sample for each set of labels.
class Family {
 public:
  Family(std::string name, const char* kind, const char* help) : name_(std::move(name)), kind_(kind), help_(help) {}

  void Add(const Labels& labels, double value) {
    std::string inner;
    for (const auto& [key, label] : labels) {
      inner += (inner.empty() ? "" : ",") + std::string(key) + "=\"" + Escaped(label) + "\"";
    }
    char number[40];  // not by snprintf, whose decimal point is the locale's
    char* const end = std::to_chars(std::begin(number), std::end(number), value).ptr;
    samples_ += name_ + "{" + inner + "} " + std::string(std::begin(number), end) + "\n";
  }

  void AppendTo(std::string& text) const {
    if (samples_.empty()) return;
    text += "# HELP " + name_ + " " + help_ + "\n# TYPE " + name_ + " " + kind_ + "\n" + samples_;
  }

 private:
  const std::string name_;
  const char* const kind_;
  const char* const help_;
  std::string samples_;
};

void AppendCallbacks(std::string& text) {
  struct Row {
    const char* name;
    const char* help;
    double (*value)(const CallbackStatistics&);
  };
  static constexpr Row kRows[] = {
      {"calls_total", "Calls that ended and tap records that were delivered.",
       [](const CallbackStatistics& one) { return static_cast<double>(one.calls); }},
      {"bytes_total", "Operands and results of calls, operands of taps.",
       [](const CallbackStatistics& one) { return static_cast<double>(one.bytes); }},
      {"host_seconds_total", "Time inside the callback.",
       [](const CallbackStatistics& one) { return one.host_seconds; }},
      {"dropped_records_total", "Tap records that a full or closed queue did not take.",
       [](const CallbackStatistics& one) { return static_cast<double>(one.drops); }},
      {"skipped_records_total", "Tap records that every=, min_interval= or sample= left out.",
       [](const CallbackStatistics& one) { return static_cast<double>(one.skips); }},
      {"errors_total", "Calls and deliveries that failed.",
       [](const CallbackStatistics& one) { return static_cast<double>(one.errors); }},
  };
  const std::vector<CallbackStatistics> all = ReadStatistics();
  for (const Row& row : kRows) {
    Family family(std::string("callout_callback_") + row.name, "counter", row.help);
    for (const CallbackStatistics& one : all) family.Add({{"callback", one.name}}, row.value(one));
    family.AppendTo(text);
  }
}

void AppendQueues(std::string& text) {
  using Queue = internal::NamedQueueStats;
  struct Row {
    const char* name;
    const char* kind;
    const char* help;
    uint64_t (*value)(const Queue&);
  };
  static constexpr Row kRows[] = {
      {"pending_bytes", "gauge", "Bytes that wait for delivery.",
       [](const Queue& queue) { return queue.stats.pending_bytes; }},
      {"high_water_bytes", "gauge", "Most bytes that ever waited for delivery.",
       [](const Queue& queue) { return queue.stats.high_water_bytes; }},
      {"capacity_bytes", "gauge", "Bytes that the queue takes.",
       [](const Queue& queue) { return queue.stats.capacity_bytes; }},
      {"blocked_total", "counter", "Times that a program waited for room.",
       [](const Queue& queue) { return static_cast<uint64_t>(queue.stats.blocked + queue.upstream.blocked); }},
      {"on_device", "gauge", "Records that are on their way from a GPU.",
       [](const Queue& queue) { return static_cast<uint64_t>(queue.upstream.records); }},
      {"pinned_bytes", "gauge", "Bytes of host memory that those take.",
       [](const Queue& queue) { return static_cast<uint64_t>(queue.upstream.bytes); }},
  };
  const std::vector<Queue> all = internal::Delivery::Get().QueueStatistics();
  for (const Row& row : kRows) {
    Family family(std::string("callout_queue_") + row.name, row.kind, row.help);
    for (const Queue& queue : all) {
      family.Add({{"lane", queue.worker == internal::Worker::kPython ? "python" : "native"},
                  {"device", std::to_string(queue.device_ordinal)}},
                 static_cast<double>(row.value(queue)));
    }
    family.AppendTo(text);
  }
}

void AppendLive(std::string& text) {
  using internal::LiveKind;
  constexpr std::pair<const char*, LiveKind> kKinds[] = {
      {"callbacks", LiveKind::kCallback},         {"sites", LiveKind::kSite},         {"blocks", LiveKind::kBlock},
      {"clients", LiveKind::kPjrtClient},         {"buffers", LiveKind::kPjrtBuffer}, {"events", LiveKind::kPjrtEvent},
      {"executables", LiveKind::kPjrtExecutable},
  };
  Family family("callout_live_objects", "gauge", "Objects of the core that exist now.");
  for (const auto& [name, kind] : kKinds) family.Add({{"kind", name}}, static_cast<double>(internal::LiveCount(kind)));
  family.Add({{"kind", "threads"}}, static_cast<double>(internal::Delivery::Get().RunningThreads()));
  family.AppendTo(text);
}

}  // namespace

std::string PrometheusText() {
  std::string text;
  AppendCallbacks(text);
  AppendQueues(text);
  AppendLive(text);
  return text;
}

}  // namespace callout::pjrt
