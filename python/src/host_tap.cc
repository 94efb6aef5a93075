// SPDX-License-Identifier: Apache-2.0
//
// The object that JAX calls for a tap that goes through JAX's own callbacks. It inspects nothing in Python, and pushes
// the record.
#include "module_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array_buffers.h"
#include "core/callbacks/registry.h"
#include "core/frame/buffer.h"
#include "eager_tap.h"
#include "errors.h"
#include "packed_arrays.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Returns the Python exception that nanobind would make of an exception thrown in this file.
nb::object AsPython(const std::exception& error) {
  const bool is_type = dynamic_cast<const nb::builtin_exception*>(&error) != nullptr;
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return nb::handle(is_type     ? PyExc_TypeError
                    : is_memory ? PyExc_MemoryError
                                : PyExc_RuntimeError)(TextObject(error.what()));
}

// A tap of one program. The last operand is the index of the device among the program's if `ordinals` has several;
// before it comes the step if the site has one. With `has_rows` each row is a record. With `threaded` the first operand
// is a token, which is also the result.
class HostTap {
 public:
  HostTap(nb::object call, nb::object callback, std::string name, nb::dict encoded, bool has_step, bool has_rows,
          std::vector<int32_t> ordinals, std::optional<std::pair<uint32_t, nb::sequence>> packed, nb::tuple answer,
          bool threaded)
      : call_(std::move(call)),
        callback_(std::move(callback)),
        answer_(std::move(answer)),
        encoded_(std::move(encoded)),
        name_(std::move(name)),
        ordinals_(std::move(ordinals)),
        several_(ordinals_.size() > 1),
        has_step_(has_step),
        has_rows_(has_rows),
        threaded_(threaded) {
    if (packed.has_value()) layout_.emplace(packed->first, packed->second);
  }

  // Pushes one record. Thread-safe. Requires GIL.
  nb::object Call(const nb::args& arrays) {
    int32_t ordinal = -1;
    try {
      Push(arrays, &ordinal);
    } catch (nb::python_error& error) {
      call_.attr("fail")(error.value(), ordinal);
    } catch (const std::exception& error) {
      call_.attr("fail")(AsPython(error), ordinal);
    }
    return threaded_ ? nb::make_tuple(arrays[0]) : answer_;
  }

  const nb::object& call() const { return call_; }

  static int Traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const auto* tap = nb::inst_ptr<HostTap>(self);
    Py_VISIT(tap->call_.ptr());
    Py_VISIT(tap->callback_.ptr());
    return 0;
  }

  static int Clear(PyObject* self) {
    auto* tap = nb::inst_ptr<HostTap>(self);
    tap->call_.reset();
    tap->callback_.reset();
    return 0;
  }

 private:
  void Push(const nb::args& arrays, int32_t* ordinal) {
    const ArrayBuffers given(nb::borrow<nb::sequence>(arrays));
    if (!layout_.has_value()) {
      const std::span all(given.data(), given.size());
      return PushBuffers(all.subspan(threaded_ && !all.empty() ? 1 : 0), ordinal);
    }
    if (given.size() != 1 || given.data()->size_bytes < layout_->bytes()) {
      throw nb::type_error("callout: what the program sent is not what was packed");
    }
    const PackedArrays parts(*layout_, static_cast<const char*>(given.data()->data));
    PushBuffers({parts.buffers().data(), parts.buffers().size()}, ordinal);
  }

  void PushBuffers(std::span<const callout_buffer> buffers, int32_t* ordinal) {
    if (!several_) {
      *ordinal = OnlyOrdinal();
    } else {
      const std::optional<int64_t> number = internal::FirstInteger(TakeLast(&buffers));
      if (!number || *number < 0 || static_cast<uint64_t>(*number) >= ordinals_.size()) {
        throw nb::type_error("callout: the program sent no number of one of its devices");
      }
      *ordinal = ordinals_[static_cast<size_t>(*number)];
    }
    if (has_rows_) {
      const CallbackHandle callback = Callback();
      return TapTo(callback).SendRows(callback, buffers, *ordinal);
    }
    std::optional<int64_t> step;
    if (has_step_) step = internal::FirstInteger(TakeLast(&buffers));  // under vmap the first element counts
    const CallbackHandle callback = Callback();
    EagerTap& tap = TapTo(callback);
    if (tap.Admit(*ordinal, step)) tap.Send(callback, buffers, *ordinal, step);
  }

  int32_t OnlyOrdinal() {
    {
      const nb::ft_lock_guard lock(mutex_);
      if (!ordinals_.empty()) return ordinals_.front();
    }
    // The mutex is not held, so other threads may get here during the call.
    const auto first = nb::cast<int32_t>(call_.attr("first_ordinal")());
    const nb::ft_lock_guard lock(mutex_);
    ordinals_.assign(1, first);
    return first;
  }

  CallbackHandle Callback() {
    {
      const nb::ft_lock_guard lock(mutex_);
      if (callback_.is_valid() && !callback_.is_none()) return nb::cast<CallbackHandle>(callback_);
    }
    nb::object found = Find();
    auto handle = nb::cast<CallbackHandle>(found);
    const nb::ft_lock_guard lock(mutex_);
    std::swap(callback_, found);
    return handle;
  }

  EagerTap& TapTo(const CallbackHandle& callback) {
    {
      const nb::ft_lock_guard lock(mutex_);
      if (tap_ != nullptr) return *tap_;
    }
    // The mutex is not held, so other threads may get here during the call.
    auto made = std::make_unique<EagerTap>(callback, encoded_);
    const nb::ft_lock_guard lock(mutex_);
    if (tap_ == nullptr) tap_.swap(made);
    return *tap_;
  }

  static const callout_buffer& TakeLast(std::span<const callout_buffer>* buffers) {
    if (buffers->empty()) throw nb::type_error("callout: the program sent fewer arrays than it was lowered with");
    const callout_buffer& last = buffers->back();
    *buffers = buffers->first(buffers->size() - 1);
    return last;
  }

  nb::object Find() const {
    auto found = internal::Registry::Get().Find(name_);
    ThrowIfError(found.status());
    return nb::cast(CallbackHandle{std::move(found).value()});
  }

  nb::object call_;
  nb::ft_mutex mutex_;  // without a GIL, guards the members that the first call makes: callback_, ordinals_, tap_
  nb::object callback_;
  nb::tuple answer_;
  nb::dict encoded_;
  const std::string name_;
  std::vector<int32_t> ordinals_;
  const bool several_;
  const bool has_step_;
  const bool has_rows_;
  const bool threaded_;
  std::optional<PackedLayout> layout_;
  std::unique_ptr<EagerTap> tap_;
};

PyType_Slot host_tap_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&HostTap::Traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&HostTap::Clear)},
                                {0, nullptr}};

}  // namespace

void BindHostTap(nb::module_& m) {
  nb::class_<HostTap>(m, "HostTap", nb::type_slots(host_tap_slots), "What JAX calls for a tap of a program.")
      .def(nb::init<nb::object, nb::object, std::string, nb::dict, bool, bool, std::vector<int32_t>,
                    std::optional<std::pair<uint32_t, nb::sequence>>, nb::tuple, bool>(),
           nb::arg("call"), nb::arg("callback").none(), nb::arg("name"), nb::arg("attributes"), nb::arg("has_step"),
           nb::arg("has_rows"), nb::arg("ordinals"), nb::arg("packed").none(), nb::arg("answer"), nb::arg("threaded"))
      .def("__call__", &HostTap::Call, nb::arg("arrays"), nb::sig("def __call__(self, *arrays: object) -> tuple"))
      .def_prop_ro("call", &HostTap::call, "What it was made of.");
}

}  // namespace callout::python
