// SPDX-License-Identifier: Apache-2.0
//
// What watches have seen, and the names of what programs carry.
#include "bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "checks/check.h"
#include "watch/watch.h"
#include "watch/watch_table.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

nb::dict PlaceOf(const internal::WatchedPlace& place) {
  nb::dict first;
  first["step"] = place.step;
  first["device"] = place.device_ordinal;
  first["run"] = place.run_id;
  first["time"] = place.time;
  first["leaf"] = place.leaf;
  first["shape"] = place.shape;
  first["index"] = nb::tuple(nb::cast(place.index));
  first["shard"] = place.shard.empty() ? nb::object(nb::none()) : nb::object(nb::tuple(nb::cast(place.shard)));
  first["kind"] = place.is_nan ? "nan" : "inf";
  return first;
}

nb::dict WatchStatistics() {
  nb::dict all;
  for (const auto& [name, counts] : internal::AllWatches()) {
    nb::dict one;
    one["calls"] = counts.calls;
    one["bad_calls"] = counts.bad_calls;
    one["elements"] = counts.elements;
    one["nan"] = counts.nan;
    one["inf"] = counts.infinite;
    one["first"] = counts.first ? nb::object(PlaceOf(*counts.first)) : nb::object(nb::none());
    all[nb::cast(name)] = one;
  }
  return all;
}

}  // namespace

void BindWatch(nb::module_& m) {
  m.attr("check_prefix") = std::string(internal::kCheckKind) + ":";
  m.attr("watch_prefix") = std::string(internal::kWatchKind) + ":";
  m.def("watch_statistics", &WatchStatistics);
}

}  // namespace callout::python
