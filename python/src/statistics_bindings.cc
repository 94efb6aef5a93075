// SPDX-License-Identifier: Apache-2.0
//
// Statistics sinks, and the values that they have computed.
#include "module_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "python_text.h"
#include "sinks/statistics/statistics_sink.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::LeafStatistics;
using internal::StatisticsSink;

StatisticsSink& SinkOf(const CallbackHandle& handle) {
  auto* const sink = dynamic_cast<StatisticsSink*>(handle.callback.get());
  if (sink == nullptr) throw nb::type_error("no sink that counts");
  return *sink;
}

// Reads without the GIL, because the read waits for a record that is being counted.
template <typename Read>
auto ReadWithoutGil(const CallbackHandle& handle, Read read) {
  const StatisticsSink& sink = SinkOf(handle);
  const GilRelease release;
  return read(sink);
}

nb::dict Numbers(const LeafStatistics& leaf) {
  const internal::Moments& moments = leaf.moments();
  nb::dict numbers;
  numbers["records"] = leaf.records();
  numbers["count"] = moments.count();
  numbers["mean"] = moments.mean();
  numbers["std"] = moments.standard_deviation();
  numbers["variance"] = moments.variance();
  numbers["min"] = moments.min();
  numbers["max"] = moments.max();
  numbers["sum"] = moments.sum();
  numbers["zeros"] = moments.zeros();
  numbers["nans"] = moments.nans();
  numbers["pos_infs"] = moments.positive_infinities();
  numbers["neg_infs"] = moments.negative_infinities();
  return numbers;
}

const internal::QuantileSketch& SketchOf(const LeafStatistics& leaf) {
  if (!leaf.sketch()) throw nb::value_error("no quantiles are kept");
  return *leaf.sketch();
}

LeafStatistics Merged(const LeafStatistics& a, const LeafStatistics& b) {
  LeafStatistics merged = a;
  const Status status = merged.Merge(b);
  if (!status.ok()) Throw(PyExc_ValueError, status.message());
  return merged;
}

void BindLeaf(nb::module_& m) {
  nb::class_<LeafStatistics>(m, "LeafStatistics", "What was counted of a leaf, at one moment.")
      .def("numbers", &Numbers)
      .def_prop_ro("has_quantiles", [](const LeafStatistics& leaf) { return leaf.sketch().has_value(); })
      .def_prop_ro("relative_error", [](const LeafStatistics& leaf) { return SketchOf(leaf).relative_error(); })
      .def(
          "quantile", [](const LeafStatistics& leaf, double q) { return SketchOf(leaf).Quantile(q); }, nb::arg("q"))
      .def(
          "counts_between",
          [](const LeafStatistics& leaf, const std::vector<double>& edges) {
            (void)SketchOf(leaf);
            return leaf.CountsBetween(edges);
          },
          nb::arg("edges"))
      .def_prop_ro("bin_counts",
                   [](const LeafStatistics& leaf) -> std::optional<std::vector<uint64_t>> {
                     if (!leaf.bins()) return std::nullopt;
                     return leaf.bins()->counts();
                   })
      .def_prop_ro("bin_edges",
                   [](const LeafStatistics& leaf) -> std::optional<std::vector<double>> {
                     if (!leaf.bins()) return std::nullopt;
                     return leaf.bins()->edges();
                   })
      .def("merged", &Merged, nb::arg("other"));
}

}  // namespace

void BindStatistics(nb::module_& m) {
  BindLeaf(m);
  m.def(
      "statistics_snapshot",
      [](const CallbackHandle& sink) {
        return ReadWithoutGil(sink, [](const StatisticsSink& of) { return of.Snapshot(); });
      },
      nb::arg("sink"), "((tap, leaf), statistics) of every leaf.");
  m.def(
      "statistics_of",
      [](const CallbackHandle& sink, const std::string& tap, const std::string& leaf) {
        return ReadWithoutGil(sink, [&](const StatisticsSink& of) { return of.Find({tap, leaf}); });
      },
      nb::arg("sink"), nb::arg("tap"), nb::arg("leaf"));
  m.def(
      "statistics_keys",
      [](const CallbackHandle& sink) {
        return ReadWithoutGil(sink, [](const StatisticsSink& of) { return of.Keys(); });
      },
      nb::arg("sink"), "(tap, leaf) of every leaf.");
  m.def(
      "reset_statistics_sink",
      [](const CallbackHandle& handle) {
        StatisticsSink& sink = SinkOf(handle);
        const GilRelease release;
        sink.Reset();
      },
      nb::arg("sink"));
}

}  // namespace callout::python
