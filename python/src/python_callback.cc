// SPDX-License-Identifier: Apache-2.0
#include "python_callback.h"

#include <cxxabi.h>
#include <unistd.h>

#include "base/small_buffer.h"
#include "errors.h"
#include "host_callback.h"

namespace callout::python {
namespace {

using internal::SmallBuffer;

// The arguments of one call: a slot in front for the callee (PY_VECTORCALL_ARGUMENTS_OFFSET), the leaves, two keywords.
class Leaves {
 public:
  explicit Leaves(size_t capacity) : slots_(capacity + 3) {}
  ~Leaves() { Clear(); }
  Leaves(const Leaves&) = delete;
  Leaves& operator=(const Leaves&) = delete;

  /// Takes ownership; false if `object` is null.
  bool Append(PyObject* object) {
    if (object == nullptr) return false;
    slots_[1 + count_++] = object;
    return true;
  }
  void Clear() {
    for (size_t i = 0; i < count_; ++i) Py_DECREF(slots_[1 + i]);
    count_ = 0;
  }
  PyObject** data() { return slots_.data() + 1; }
  size_t count() const { return count_; }

 private:
  SmallBuffer<PyObject*, 12> slots_;
  size_t count_ = 0;
};

bool AppendArguments(const callout_call& call, bool zero_copy, Leaves& leaves) {
  for (uint32_t i = 0; i < call.num_args; ++i) {
    if (!leaves.Append(zero_copy ? ViewAsArray(call.args[i]) : CopyToArray(call.args[i]))) return false;
  }
  return true;
}

// A thread that asks for the GIL while the interpreter goes away is ended by CPython (up to 3.13) by unwinding its
// stack, which would run our destructors without the GIL and end in std::terminate at the first `noexcept`. Such a
// thread is stopped here instead, as CPython 3.14 does. The condition for removal: Python 3.13 is no longer supported.
template <typename Body>
auto WithoutUnwinding(Body&& body) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// `arguments` has a free slot in front.
Ref CallPython(PyObject* function, PyObject* const* arguments, size_t count, PyObject* keywords) {
  return WithoutUnwinding(
      [&] { return Ref(PyObject_Vectorcall(function, arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords)); });
}

Ref CallPython(PyObject* function, PyObject* argument) {
  return WithoutUnwinding([&] { return Ref(PyObject_CallOneArg(function, argument)); });
}

Ref MakeTuple(PyObject* const* items, size_t count) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  }
  return tuple;
}

// A zero-copy array that somebody still refers to would read memory that XLA reuses.
Status CheckNotKept(Leaves& leaves) {
  for (size_t i = 0; i < leaves.count(); ++i) {
    if (Py_REFCNT(leaves.data()[i]) > 1) {
      return FailedPrecondition("it kept argument " + std::to_string(i) +
                                " (or a view of it) beyond its call, which "
                                "zero_copy=True forbids: the memory is XLA's and is reused. Copy what is to be kept");
    }
  }
  return OkStatus();
}

}  // namespace

PythonCallback::PythonCallback(std::string label, PythonSignature signature)
    : Callback(std::move(label)), signature_(std::move(signature)) {}

int PythonCallback::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(signature_.function.get());
  Py_VISIT(signature_.unflatten.get());
  Py_VISIT(signature_.unflatten_value.get());
  Py_VISIT(signature_.flatten.get());
  Py_VISIT(signature_.device_lookup.get());
  Py_VISIT(signature_.transforms.get());
  return 0;
}

Status PythonCallback::Call(const callout_call& call) {
  const GilScope gil;
  if (!gil.ok()) return Unavailable("the Python interpreter is going away");
  if (!gil.on_foreign_thread() || signature_.numpy_only || call.error_context == nullptr) [[likely]]
    return CallWithGil(call);
  // What XLA runs on its own threads was dispatched asynchronously: others may be queued behind it.
  Status status;
  RunInHostCallbackScope(call.error_context, [&] { status = CallWithGil(call); });
  return status;
}

Status PythonCallback::CallWithGil(const callout_call& call) {
  Leaves leaves(call.num_args);
  if (!AppendArguments(call, signature_.zero_copy, leaves)) return TakePythonError();
  Ref value = CallFunction(leaves.data(), leaves.count());
  Status status = value ? StoreResults(value.get(), call) : TakePythonError();
  value = Ref();
  if (signature_.zero_copy && status.ok()) return CheckNotKept(leaves);
  return status;
}

Ref PythonCallback::CallFunction(PyObject* const* leaves, size_t count) {
  PyObject* function = signature_.function.get();
  if (!signature_.unflatten) {
    return CallPython(function, leaves, count, nullptr);
  }
  const Ref tuple = MakeTuple(leaves, count);
  const Ref structure = tuple ? CallPython(signature_.unflatten.get(), tuple.get()) : Ref();
  if (!structure) return Ref();
  PyObject *args, *kwargs;
  if (!PyArg_ParseTuple(structure.get(), "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return Ref();
  return WithoutUnwinding([&] { return Ref(PyObject_Call(function, args, kwargs)); });
}

Status PythonCallback::StoreResults(PyObject* value, const callout_call& call) {
  if (signature_.flatten) {
    const Ref leaves = CallPython(signature_.flatten.get(), value);
    return leaves ? StoreLeaves(leaves.get(), call) : TakePythonError();
  }
  if (!signature_.single_result) return StoreLeaves(value, call);
  if (call.num_results == 0) return OkStatus();
  const std::string mismatch = StoreResult(value, call.results[0], signature_.canonicalize);
  if (PyErr_Occurred() != nullptr) [[unlikely]]
    return TakePythonError();
  return mismatch.empty() ? OkStatus() : InvalidArgument("its result does not fit: " + mismatch);
}

Status PythonCallback::StoreLeaves(PyObject* sequence, const callout_call& call) {
  const bool is_sequence = PyTuple_Check(sequence) || PyList_Check(sequence);
  const Py_ssize_t count = is_sequence ? PySequence_Fast_GET_SIZE(sequence) : -1;
  if (count != static_cast<Py_ssize_t>(call.num_results)) {
    return InvalidArgument("its result does not fit: expected a tuple of " + std::to_string(call.num_results) +
                           ", got " +
                           (is_sequence ? "one of " + std::to_string(count)
                                        : std::string("an object of type ") + Py_TYPE(sequence)->tp_name));
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
    const std::string mismatch = StoreResult(item, call.results[i], signature_.canonicalize);
    if (PyErr_Occurred() != nullptr) return TakePythonError();
    if (!mismatch.empty()) {
      return InvalidArgument("its result " + std::to_string(i) + " does not fit: " + mismatch);
    }
  }
  return OkStatus();
}

Status PythonCallback::Deliver(const internal::Record& record) {
  Leaves leaves(record.buffers.size());
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    if (!leaves.Append(AdoptAsArray(record.buffers[i], &record.blocks[i]))) return TakePythonError();
  }
  const Ref result = CallTap(leaves.data(), leaves.count(), record.device_ordinal);
  return result ? OkStatus() : TakePythonError();
}

Ref PythonCallback::CallTap(PyObject* const* leaves, size_t count, int32_t device_ordinal) {
  PyObject* function = signature_.function.get();
  Ref value;
  PyObject* arguments[4] = {nullptr, nullptr, nullptr, nullptr};  // offset slot, value, keywords
  if (signature_.unflatten_value) {
    const Ref tuple = MakeTuple(leaves, count);
    value = tuple ? CallPython(signature_.unflatten_value.get(), tuple.get()) : Ref();
    if (!value) return Ref();
    arguments[1] = value.get();
  } else {
    arguments[1] = leaves[0];
  }
  if (!signature_.transforms && !signature_.device_lookup) {
    return CallPython(function, arguments + 1, 1, nullptr);
  }
  const Ref names(PyTuple_New((signature_.transforms ? 1 : 0) + (signature_.device_lookup ? 1 : 0)));
  if (!names) return Ref();
  Py_ssize_t n = 0;
  Ref device;
  if (signature_.transforms) {
    arguments[2] = signature_.transforms.get();
    PyTuple_SET_ITEM(names.get(), n++, PyUnicode_InternFromString("transforms"));
  }
  if (signature_.device_lookup) {
    const Ref ordinal(PyLong_FromLong(device_ordinal));
    device = ordinal ? CallPython(signature_.device_lookup.get(), ordinal.get()) : Ref();
    if (!device) return Ref();
    arguments[2 + n] = device.get();
    PyTuple_SET_ITEM(names.get(), n++, PyUnicode_InternFromString("device"));
  }
  return CallPython(function, arguments + 1, 1, names.get());
}

}  // namespace callout::python
