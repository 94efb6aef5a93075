// SPDX-License-Identifier: Apache-2.0
//
// Writes statistics in Prometheus' text exposition format, version 0.0.4, under the names of
// callout.stats().prometheus() in Python.
#include <charconv>
#include <iterator>
#include <utility>
#include <variant>

#include "callout/pjrt/host_callback.h"
#include "core/base/live_count.h"
#include "core/callbacks/call_statistics.h"
#include "core/delivery/delivery.h"
#include "core/delivery/metrics.h"

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
    char number[40];  // not snprintf, whose decimal point depends on the locale
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

template <typename Source>
double Read(const internal::Metric<Source>& metric, const Source& source) {
  return std::visit([](auto number) { return static_cast<double>(number); }, metric.read(source));
}

void AppendCallbacks(std::string& text) {
  const auto all = internal::AllStats();
  for (const auto& metric : internal::CallbackMetrics()) {
    Family family(std::string("callout_callback_") + metric.name, metric.type, metric.help);
    for (const auto& [name, stats] : all) family.Add({{"callback", name}}, Read(metric, *stats));
    family.AppendTo(text);
  }
}

void AppendQueues(std::string& text) {
  const auto all = internal::Delivery::Get().QueueStatistics();
  for (const auto& metric : internal::QueueMetrics()) {
    Family family(std::string("callout_queue_") + metric.name, metric.type, metric.help);
    for (const internal::NamedQueueStats& queue : all) {
      family.Add({{"worker", internal::WorkerName(queue.worker)}, {"device", std::to_string(queue.device_ordinal)}},
                 Read(metric, queue));
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
