// SPDX-License-Identifier: Apache-2.0
//
// Gives Python the statistics of watches, and turns findings of locate_nans into Python warnings.
#include "module_bindings.h"

#include <nanobind/stl/vector.h>

#include "gil.h"
#include "python_text.h"
#include "sinks/inspectors/located_nans.h"
#include "sinks/inspectors/watch.h"

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

// Issues a Python warning while the program runs, so that the warning precedes the program's results.
internal::Reported WarnOfLocatedNans(std::string_view line, std::string_view text) {
  const GilScope gil(ThreadState::kDrop);
  if (!gil.ok()) return internal::Reported::kByNobody;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref module(PyImport_ImportModule("callout._callbacks.located_nans"));
  const Ref where = StrOf(line), what = StrOf(text);
  const bool ready = module && where && what;
  const Ref taken(ready ? PyObject_CallMethod(module.get(), "warn", "OO", where.get(), what.get()) : nullptr);
  const int result = taken ? PyObject_IsTrue(taken.get()) : -1;
  if (result < 0) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  if (result < 0) return internal::Reported::kByNobody;
  return result == 1 ? internal::Reported::kTaken : internal::Reported::kRefused;
}

}  // namespace

void BindWatch(nb::module_& m) {
  internal::SetLocatedNansReporter(&WarnOfLocatedNans);
  m.def("watch_statistics", &WatchStatistics);
}

}  // namespace callout::python
