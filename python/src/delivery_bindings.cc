// SPDX-License-Identifier: Apache-2.0
//
// Queues: settings, barrier, statistics.
#include "module_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <variant>

#include "core/base/live_count.h"
#include "core/base/ticks.h"
#include "core/callbacks/call_statistics.h"
#include "core/callbacks/in_flight.h"
#include "core/delivery/delivery.h"
#include "core/delivery/metrics.h"
#include "errors.h"
#include "gil.h"
#include "python_text.h"
#include "sinks/inspectors/watch.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::Delivery;
using std::chrono::steady_clock;

// Waits until the queues are drained; `seconds` < 0 means without a limit. Waits in slices, so that Ctrl-C is noticed.
std::vector<std::string> Drain(double seconds) {
  const auto deadline = internal::DeadlineAfter(seconds);
  for (;;) {
    const auto slice = std::min(deadline, steady_clock::now() + std::chrono::milliseconds(100));
    std::vector<std::string> outstanding;
    {
      const GilRelease release;
      outstanding = Delivery::Get().Drain(slice);
    }
    if (outstanding.empty() || steady_clock::now() >= deadline) return outstanding;
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  }
}

uint64_t Shutdown(double seconds) {
  const GilRelease release;
  return Delivery::Get().Shutdown(internal::DeadlineAfter(seconds));
}

nb::object ExceptionObject(const Status& failure) {
  Ref exception = ExceptionOf(failure);
  if (!exception) nb::raise_python_error();
  return nb::steal(exception.release());
}

nb::tuple TakeErrors() {
  const internal::DeliveryErrorReport report = Delivery::Get().TakeErrors();
  nb::list first;
  for (const Status& failure : report.first) first.append(ExceptionObject(failure));
  if (report.count == 0) return nb::make_tuple(0, first, nb::none());
  return nb::make_tuple(report.count, first,
                        nb::make_tuple(TextObject(report.last.message()), ExceptionObject(report.last)));
}

template <typename Source>
void AddMetrics(std::span<const internal::Metric<Source>> metrics, const Source& source, nb::dict& one) {
  for (const auto& metric : metrics) {
    one[metric.key] = std::visit([](auto number) { return nb::cast(number); }, metric.read(source));
  }
}

nb::dict CallbackStatistics() {
  nb::dict all;
  for (const auto& [label, stats] : internal::AllStats()) {
    nb::dict one;
    AddMetrics(internal::CallbackMetrics(), *stats, one);
    all[nb::cast(label)] = one;
  }
  return all;
}

nb::list QueueStatistics() {
  nb::list all;
  for (const internal::NamedQueueStats& queue : Delivery::Get().QueueStatistics()) {
    nb::dict one;
    one["worker"] = internal::WorkerName(queue.worker);
    one["device"] = queue.device_ordinal;
    AddMetrics(internal::QueueMetrics(), queue, one);
    all.append(one);
  }
  return all;
}

template <typename Source>
nb::list Described(std::span<const internal::Metric<Source>> metrics) {
  nb::list all;
  for (const auto& metric : metrics) {
    all.append(nb::make_tuple(metric.key, metric.name, metric.type, metric.help, metric.column));
  }
  return all;
}

nb::dict LiveCounts() {
  DropGarbage();
  nb::dict counts;
  counts["callbacks"] = internal::LiveCount(internal::LiveKind::kCallback);
  counts["sites"] = internal::LiveCount(internal::LiveKind::kSite);
  counts["blocks"] = internal::LiveCount(internal::LiveKind::kBlock);
  counts["threads"] = Delivery::Get().RunningThreads();
  return counts;
}

}  // namespace

void BindDelivery(nb::module_& m) {
  m.def(
      "configure_delivery",
      [](uint64_t queue_bytes, int python_threads) {
        ThrowIfError(Delivery::Get().Configure({.queue_bytes = queue_bytes, .python_threads = python_threads}));
      },
      nb::arg("queue_bytes"), nb::arg("python_threads"));
  m.def("drain", &Drain, nb::arg("seconds"), "What is outstanding after `seconds` (< 0: wait for ever).");
  m.def("shutdown", &Shutdown, nb::arg("seconds"), "Number of records that were not delivered.");
  m.def(
      "park_delivery_threads",
      [] {
        const GilRelease release;
        Delivery::Get().Park();
      },
      "Ends the delivery threads until a tap has something for them.");
  m.def("on_delivery_thread", &internal::DeliveryThread::IsCurrent);
  m.def("inside_call", &internal::InsideCall);
  m.def("take_delivery_errors", &TakeErrors,
        "(count, exceptions of the first few, (text, exception) of the last or None)");
  m.def("callback_statistics", &CallbackStatistics);
  m.def("queue_statistics", &QueueStatistics);
  m.def(
      "callback_metrics", [] { return Described(internal::CallbackMetrics()); },
      "(key, name, type, help, column) each");
  m.def("queue_metrics", [] { return Described(internal::QueueMetrics()); }, "(key, name, type, help, column) each");
  m.def("reset_statistics", [] {
    internal::ResetStats();
    internal::ResetWatches();
  });
  m.def("reset_watches", &internal::ResetWatches, nb::arg("name").none(),
        "Begins the counts of all names, or of one, anew.");
  m.def("live_counts", &LiveCounts);
}

}  // namespace callout::python
