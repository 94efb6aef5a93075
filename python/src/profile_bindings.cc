// SPDX-License-Identifier: Apache-2.0
//
// Records profiles, and gives their events to Python.
#include "module_bindings.h"

#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/profile/recorder.h"
#include "core/profile/trace_json.h"
#include "errors.h"
#include "function_span.h"
#include "gil.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// A finished recording, and the rows on which its events lie.
struct ArrangedRecording {
  internal::Recording recording;
  internal::Rows rows;
};

ArrangedRecording Stop() {
  ArrangedRecording arranged;
  Status status;
  {
    const GilRelease release;
    auto recording = internal::StopRecording();
    if (recording.ok()) {
      arranged.recording = std::move(recording).value();
      arranged.rows = internal::ArrangeRows(arranged.recording);
    } else {
      status = std::move(recording).status();
    }
  }
  ThrowIfError(status);
  return arranged;
}

template <typename T>
nb::bytes BytesOf(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

// Returns (group, device, thread, number, name) of each row.
nb::list RowTable(const ArrangedRecording& self) {
  constexpr const char* kGroups[] = {"phases", "device", "delivery", "functions"};
  nb::list rows;
  for (const internal::Row& row : self.rows.rows) {
    rows.append(nb::make_tuple(kGroups[static_cast<size_t>(row.group)], row.device, row.thread, row.number, row.name));
  }
  return rows;
}

nb::list Threads(const ArrangedRecording& self) {
  nb::list threads;
  for (const internal::ProfileThread& thread : self.recording.threads) {
    threads.append(nb::make_tuple(thread.id, thread.name, thread.delivers));
  }
  return threads;
}

nb::list Labels(const ArrangedRecording& self) {
  nb::list labels;
  for (const std::string& label : self.recording.labels) {
    labels.append(TextObject(label));
  }
  return labels;
}

nb::bytes TraceBytes(const ArrangedRecording& self, int64_t process, int64_t shift_ns, bool whole_file) {
  const internal::TraceOptions options = {.process = process, .shift_ns = shift_ns};
  std::string text;
  {
    const GilRelease release;
    text = whole_file ? internal::TraceFile(self.recording, self.rows, options)
                      : internal::TraceEvents(self.recording, self.rows, options);
  }
  return nb::bytes(text.data(), text.size());
}

}  // namespace

void BindProfile(nb::module_& m) {
  nb::class_<ArrangedRecording>(m, "Recording", "A profile's events, which are over.")
      .def_prop_ro(
          "events", [](const ArrangedRecording& self) { return BytesOf(self.recording.events); },
          "ProfileEvent of src/core/profile/event.h, one after the other.")
      .def_prop_ro(
          "row_of", [](const ArrangedRecording& self) { return BytesOf(self.rows.of); },
          "Each event's row, uint32; all bits set: none.")
      .def_prop_ro("rows", &RowTable, "(group, device, thread, number, name) of each row.")
      .def_prop_ro("threads", &Threads, "(kernel's id, name, whether it delivers) of each thread.")
      .def_prop_ro("labels", &Labels)
      .def_prop_ro("left_out", [](const ArrangedRecording& self) { return self.recording.left_out; })
      .def_prop_ro("duration_ns", [](const ArrangedRecording& self) { return self.recording.duration_ns; })
      .def_prop_ro("begin_steady_ns", [](const ArrangedRecording& self) { return self.recording.begin_steady_ns; })
      .def_prop_ro("begin_wall_seconds",
                   [](const ArrangedRecording& self) { return self.recording.begin_wall_seconds; })
      .def("trace", &TraceBytes, nb::arg("process"), nb::arg("shift_ns"), nb::arg("whole_file"),
           "The Trace Event Format: a file, or the events of its array.");
  m.def(
      "start_recording", [](uint64_t max_events) { ThrowIfError(internal::StartRecording(max_events)); },
      nb::arg("max_events"));
  m.def("stop_recording", &Stop);
  m.def("is_recording", [] { return internal::ProfileSession() != 0; });
  m.def(
      "set_annotation",
      [](const nb::object& factory, const nb::object& is_enabled) {
        SetAnnotation(factory.is_none() ? nullptr : factory.ptr(), is_enabled.is_none() ? nullptr : is_enabled.ptr());
      },
      nb::arg("factory").none(), nb::arg("is_enabled").none(), "What annotates Python functions while one records.");
}

}  // namespace callout::python
