// SPDX-License-Identifier: Apache-2.0
//
// Host objects that programs read by their handles. A Python object here owns one host object, which retires when the
// Python object ends.
#include "module_bindings.h"

#include <nanobind/stl/vector.h>

#include <cstring>

#include "array_buffers.h"
#include "arrays.h"
#include "core/handles/handle_table.h"
#include "core/handles/host_value.h"
#include "core/handles/signals.h"
#include "core/handles/stop_flag.h"
#include "errors.h"
#include "function_object.h"
#include "gil.h"
#include "sinks/sink_handle.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::Handle;
using internal::HandleTable;

// A Python object that owns a host object. Thread-safe.
template <typename Object>
class Owner {
 public:
  explicit Owner(std::shared_ptr<Object> object) : object_(std::move(object)) {
    auto handle = HandleTable::Get().Add(object_);
    ThrowIfError(handle.status());
    handle_ = *handle;
  }
  ~Owner() { HandleTable::Get().Retire(handle_); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  const std::shared_ptr<Object>& object() const { return object_; }
  std::vector<uint32_t> words() const {
    std::vector<uint32_t> words(sizeof(Handle) / sizeof(uint32_t));
    std::memcpy(words.data(), &handle_, sizeof(Handle));
    return words;
  }

 private:
  const std::shared_ptr<Object> object_;
  Handle handle_;
};

using StopFlagOwner = Owner<internal::StopFlag>;
using HostValueOwner = Owner<internal::HostValue>;
using SinkOwner = Owner<internal::SinkObject>;

using FunctionOwner = Owner<FunctionObject>;

// Visits the function, which may refer to the owner of its handle.
int TraverseFunction(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<FunctionOwner>(self)->object()->function());
  return 0;
}

PyType_Slot function_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&TraverseFunction)}, {0, nullptr}};

// Returns the object of a handle, kept for as long as the result lives.
HandleTable::Found FindObject(const std::vector<uint32_t>& words, internal::HandleKind kind) {
  const Handle handle = words.size() * sizeof(uint32_t) == sizeof(Handle) ? Handle::Of(words.data()) : Handle();
  HandleTable::Found found = HandleTable::Get().Find(handle, kind);
  if (!found) ThrowIfError(HandleTable::Get().WhyNotFound(handle, kind));
  return found;
}

std::vector<internal::HostArray> CopyOf(const nb::sequence& arrays) {
  const ArrayBuffers buffers(arrays);
  std::vector<internal::HostArray> copies;
  for (uint32_t i = 0; i < buffers.size(); ++i) copies.push_back(internal::HostArray::CopyOf(buffers.data()[i]));
  return copies;
}

nb::list ArraysOf(const internal::Answer& answer) {
  nb::list arrays;
  for (const internal::HostArray& array : *answer) {
    PyObject* const copy = CopyToArray(array.view());
    if (copy == nullptr) nb::raise_python_error();
    arrays.append(nb::steal(copy));
  }
  return arrays;
}

// The signals that a stop flag catches until `close`.
class CaughtSignals {
 public:
  CaughtSignals(const StopFlagOwner& flag, std::vector<int> signals) {
    auto scope = internal::SignalScope::Make(std::move(signals), flag.object());
    ThrowIfError(scope.status());
    scope_ = std::move(scope).value();
  }
  void Close() { scope_.reset(); }

 private:
  std::unique_ptr<internal::SignalScope> scope_;
};

void BindStopFlag(nb::module_& m) {
  using internal::StopFlag;
  constexpr auto kKind = internal::HandleKind::kStopFlag;
  nb::class_<StopFlagOwner>(m, "StopFlagOwner", "Keeps a flag that programs read.")
      .def(
          "__init__",
          [](StopFlagOwner* self, double seconds) { new (self) StopFlagOwner(std::make_shared<StopFlag>(seconds)); },
          nb::arg("seconds"))
      .def_prop_ro("words", &StopFlagOwner::words, "The numbers of its handle.")
      .def("start_timer", [](const StopFlagOwner& self) { self.object()->StartTimer(); });
  nb::class_<CaughtSignals>(m, "CaughtSignals", "Signals that set a flag.")
      .def(nb::init<const StopFlagOwner&, std::vector<int>>(), nb::arg("flag"), nb::arg("signals"))
      .def("close", &CaughtSignals::Close);
  m.def(
      "stop_flag_is_set",
      [](const std::vector<uint32_t>& words) {
        const auto found = FindObject(words, kKind);
        return static_cast<const StopFlag&>(*found).IsSet();
      },
      nb::arg("words"));
  m.def(
      "set_stop_flag",
      [](const std::vector<uint32_t>& words, bool value) {
        const auto found = FindObject(words, kKind);
        auto& flag = static_cast<StopFlag&>(*found);
        value ? flag.Set() : flag.Clear();
      },
      nb::arg("words"), nb::arg("value"));
}

void BindHostValue(nb::module_& m) {
  using internal::HostValue;
  constexpr auto kKind = internal::HandleKind::kHostValue;
  nb::class_<HostValueOwner>(m, "HostValueOwner", "Keeps arrays that programs read.")
      .def(
          "__init__",
          [](HostValueOwner* self, const nb::sequence& arrays) {
            new (self) HostValueOwner(std::make_shared<HostValue>(CopyOf(arrays)));
          },
          nb::arg("arrays"))
      .def_prop_ro("words", &HostValueOwner::words, "The numbers of its handle.");
  m.def(
      "get_host_value",
      [](const std::vector<uint32_t>& words) {
        internal::Answer answer = FindObject(words, kKind)->Read();
        return ArraysOf(answer);
      },
      nb::arg("words"));
  m.def(
      "set_host_value",
      [](const std::vector<uint32_t>& words, const nb::sequence& arrays) {
        std::vector<internal::HostArray> copies = CopyOf(arrays);
        const Status status = static_cast<HostValue&>(*FindObject(words, kKind)).Set(std::move(copies));
        ThrowIfError(status);
      },
      nb::arg("words"), nb::arg("arrays"));
}

void BindReceivers(nb::module_& m) {
  nb::class_<SinkOwner>(m, "SinkOwner", "Keeps a sink that programs send to.")
      .def(
          "__init__",
          [](SinkOwner* self, const CallbackHandle& sink) {
            new (self) SinkOwner(std::make_shared<internal::SinkObject>(sink.callback));
          },
          nb::arg("sink"))
      .def_prop_ro("words", &SinkOwner::words, "The numbers of its handle.");
  nb::class_<FunctionOwner>(m, "FunctionOwner", nb::type_slots(function_slots),
                            "Keeps a function that programs send to.")
      .def(
          "__init__",
          [](FunctionOwner* self, const nb::object& function) {
            new (self) FunctionOwner(std::make_shared<FunctionObject>(Ref::Borrow(function.ptr())));
          },
          nb::arg("function"))
      .def_prop_ro("words", &FunctionOwner::words, "The numbers of its handle.");
}

}  // namespace

void BindHandles(nb::module_& m) {
  BindStopFlag(m);
  BindHostValue(m);
  BindReceivers(m);
  m.def(
      "retired_handles",
      [] {
        const HandleTable::Retired retired = HandleTable::Get().retired();
        return nb::make_tuple(retired.ever, retired.kept);
      },
      "How many objects with handles were ever retired, and how many of these are kept.");
  m.def(
      "free_handles",
      [](uint64_t count) {
        const GilRelease release;
        HandleTable::Get().Free(count);
      },
      nb::arg("count"), "Destroys the first `count` objects that were ever retired.");
  m.def("live_host_objects", [] { return internal::LiveCount(internal::LiveKind::kHostObject); });
}

}  // namespace callout::python
