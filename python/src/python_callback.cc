// SPDX-License-Identifier: Apache-2.0
#include "python_callback.h"

#include "core/base/cat.h"
#include "core/base/small_buffer.h"
#include "core/delivery/delivery.h"
#include "errors.h"
#include "function_object.h"

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

  /// Takes ownership. Returns false if `object` is null.
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

// The arguments of a tap's function: the value and a few more, most of them by keyword.
class TapArguments {
 public:
  /// Adds an argument before all keywords. Borrowed: the caller keeps `value`.
  void AddPositional(PyObject* value) { slots_[1 + num_positional_++] = value; }
  /// Adds a keyword argument. Takes ownership. A null `object` (with a Python error set) makes this object not ok.
  void Add(const char* keyword, Ref object) {
    if (!object) ok_ = false;
    names_[num_keywords_] = keyword;
    slots_[1 + num_positional_ + num_keywords_] = object.get();
    owned_[num_keywords_++] = std::move(object);
  }
  bool ok() const { return ok_; }
  size_t num_positional() const { return num_positional_; }
  size_t num_keywords() const { return num_keywords_; }
  PyObject* const* data() const { return slots_ + 1; }
  /// Returns the tuple of the keywords; null with a Python error set.
  Ref KeywordNames() const {
    Ref names(PyTuple_New(static_cast<Py_ssize_t>(num_keywords_)));
    for (size_t i = 0; names && i < num_keywords_; ++i) {
      PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), PyUnicode_InternFromString(names_[i]));
    }
    return names;
  }

 private:
  static constexpr size_t kMaxKeywords = 3;
  PyObject* slots_[3 + kMaxKeywords] = {};  // offset slot, value, transforms, keywords
  Ref owned_[kMaxKeywords];
  const char* names_[kMaxKeywords] = {};
  size_t num_positional_ = 0;
  size_t num_keywords_ = 0;
  bool ok_ = true;
};

// True for an array or a NumPy scalar, which is a leaf in every structure.
bool IsArrayLeaf(PyObject* value) { return PyArray_Check(value) || PyArray_IsScalar(value, Generic); }

// Returns the index of the first leaf to which someone else refers, or the number of leaves.
size_t FirstKept(Leaves& leaves) {
  size_t i = 0;
  while (i < leaves.count() && Py_REFCNT(leaves.data()[i]) == 1) ++i;
  return i;
}

// Returns true for a tuple of `count` arrays. Its elements can be stored as leaves, whatever the declared structure is,
// because a result may be any tree with the right number of leaves.
bool IsTupleOfArrays(PyObject* value, uint32_t count) {
  if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != static_cast<Py_ssize_t>(count)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsArrayLeaf(PyTuple_GET_ITEM(value, i))) return false;
  }
  return true;
}

// Returns the error for a result that does not fit its declaration. `which` is the number of the result and a space, or
// "" if the error does not concern one of several results.
Status Misfit(const std::string& which, const std::string& mismatch) {
  return {StatusCode::kInvalidArgument, "its result " + which + "does not fit: " + mismatch, StatusKind::kResult};
}

// Checks that nobody refers to a zero-copy array any more, which would read memory that XLA reuses.
Status CheckNotKept(Leaves& leaves) {
  if (FirstKept(leaves) == leaves.count()) [[likely]]
    return OkStatus();
  PyGC_Collect();  // a reference may be part of a cycle
  const size_t kept = FirstKept(leaves);
  if (kept == leaves.count()) return OkStatus();
  return FailedPrecondition(
      internal::Cat("it kept argument ", kept,
                    " (or a view of it) beyond its call, which "
                    "zero_copy=True forbids: the memory is XLA's and is reused. Copy what is to be kept"));
}

}  // namespace

PythonCallback::PythonCallback(std::string label, PythonSignature signature)
    : Callback(std::move(label)), signature_(std::move(signature)) {}

int PythonCallback::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(signature_.function.get());
  Py_VISIT(signature_.unflatten.get());
  Py_VISIT(signature_.unflatten_value.get());
  Py_VISIT(signature_.flatten.get());
  Py_VISIT(signature_.explain.get());
  Py_VISIT(signature_.device_lookup.get());
  Py_VISIT(signature_.index_lookup.get());
  Py_VISIT(signature_.transforms.get());
  return 0;
}

Status PythonCallback::Call(const callout_call& call) {
  return CallFromProgram(*this, call, signature_.numpy_only, [&] {
    Status status = CallWithGil(call);
    if (!status.ok() && signature_.barrier_raises) {
      internal::Delivery::Get().AddError(*this, call.device_ordinal, status);
    }
    return status;
  });
}

Status PythonCallback::CallWithGil(const callout_call& call) {
  Leaves leaves(call.num_args);
  const internal::ProfileSpan arguments;
  if (!AppendArguments(call, signature_.zero_copy, leaves)) return TakePythonError();
  if (arguments.on()) [[unlikely]]
    arguments.End({.kind = internal::ProfileKind::kCopy});
  Ref value = CallFunction(leaves.data(), leaves.count(), call.device_ordinal);
  const internal::ProfileSpan results;
  Status status = value ? StoreResults(value.get(), call) : TakeCallError();
  if (results.on() && value) [[unlikely]]
    results.End({.kind = internal::ProfileKind::kCopy});
  value = Ref();
  if (!signature_.zero_copy) return status;
  Status kept = CheckNotKept(leaves);
  if (status.ok() || kept.ok()) [[likely]]
    return status.ok() ? std::move(kept) : std::move(status);
  return WithoutException(status, kept);
}

// Clears the variables of a failed zero-copy function's frames, and of the frames that looked at its result: they would
// keep arrays over memory that XLA reuses.
Status PythonCallback::TakeCallError() const {
  return TakePythonError(signature_.zero_copy ? Frames::kClear : Frames::kKeep);
}

Ref PythonCallback::CallFunction(PyObject* const* leaves, size_t count, int32_t device_ordinal) {
  PyObject* function = signature_.function.get();
  if (!signature_.unflatten) {
    return CallUser(label(), function, leaves, count, nullptr);
  }
  const Ref tuple = MakeTuple(leaves, count);
  const Ref structure = tuple ? CallPython(signature_.unflatten.get(), tuple.get()) : Ref();
  if (!structure) return Ref();
  if (signature_.device_lookup) {
    const Ref device = LookUpDevice(device_ordinal);
    PyObject *args, *kwargs;
    if (!device || !PyArg_ParseTuple(structure.get(), "OO!", &args, &PyDict_Type, &kwargs)) return Ref();
    if (PyDict_SetItemString(kwargs, "device", device.get()) < 0) return Ref();
  }
  return CallUserWithStructure(label(), function, structure.get());
}

Status PythonCallback::StoreResults(PyObject* value, const callout_call& call) {
  if (call.num_results == 0 && value == Py_None && !signature_.explain) return OkStatus();
  const bool is_single = call.num_results == 1 && signature_.single_result;
  if (signature_.flatten && !(is_single && IsArrayLeaf(value))) {
    if (!signature_.explain && IsTupleOfArrays(value, call.num_results)) return StoreLeaves(value, call);
    if (is_single && !signature_.explain) {  // a number or numbers in lists; otherwise anything with one leaf
      const std::string mismatch = StoreResult(value, call.results[0], signature_.canonicalize);
      if (PyErr_Occurred() == nullptr && mismatch.empty()) return OkStatus();
      PyErr_Clear();
    }
    const Ref leaves = CallPython(signature_.flatten.get(), value);
    if (!leaves) return TakeCallError();
    Status status = StoreLeaves(leaves.get(), call);
    if (status.kind() == StatusKind::kResult) return Explained(value, std::move(status));
    return status;
  }
  if (!signature_.single_result) return StoreLeaves(value, call);
  if (call.num_results == 0) return OkStatus();
  if (call.num_results > 1) {
    return Misfit("", internal::Cat("it returns one array, and the program declares ", call.num_results));
  }
  const std::string mismatch = StoreResult(value, call.results[0], signature_.canonicalize);
  if (PyErr_Occurred() != nullptr) [[unlikely]]
    return TakeCallError();
  if (mismatch.empty()) [[likely]]
    return OkStatus();
  return Explained(value, Misfit("", mismatch));
}

Status PythonCallback::Explained(PyObject* value, Status mismatch) const {
  if (!signature_.explain) return mismatch;
  const Ref nothing = CallPython(signature_.explain.get(), value);
  if (!nothing) return TakeCallError();
  return mismatch;
}

Status PythonCallback::StoreLeaves(PyObject* sequence, const callout_call& call) {
  if (call.num_results == 0) return OkStatus();  // a registered function's result that the call does not declare
  const bool is_sequence = PyTuple_Check(sequence) || PyList_Check(sequence);
  // A tuple, because a list may change while its items are read: by their __array__, and by other threads while NumPy
  // releases the GIL.
  const Ref items(is_sequence ? PySequence_Tuple(sequence) : nullptr);
  if (is_sequence && !items) return TakeCallError();
  const Py_ssize_t count = is_sequence ? PyTuple_GET_SIZE(items.get()) : -1;
  if (count != static_cast<Py_ssize_t>(call.num_results)) {
    return Misfit("", internal::Cat("expected a tuple of ", call.num_results, ", got ",
                                    is_sequence ? internal::Cat("one of ", count)
                                                : std::string("an object of type ") + Py_TYPE(sequence)->tp_name));
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    const std::string mismatch = StoreResult(item, call.results[i], signature_.canonicalize);
    if (PyErr_Occurred() != nullptr) return TakeCallError();
    if (!mismatch.empty()) return Misfit(internal::Cat(i, " "), mismatch);
  }
  return OkStatus();
}

Status PythonCallback::CheckTap(size_t num_leaves) const {
  const size_t handles = signature_.function ? 0 : 1;
  if (signature_.unflatten_value || num_leaves == 1 + handles) return OkStatus();
  return InvalidArgument(
      internal::Cat("callback '", label(), "' was traced for a value that is one array; this one has ", num_leaves));
}

Status PythonCallback::Deliver(const internal::Record& record) {
  if (signature_.function) [[likely]]
    return DeliverTo(signature_.function.get(), record);
  if (record.buffers.empty()) return InvalidArgument("expected the handle of a function before the value, got nothing");
  CALLOUT_ASSIGN_OR_RETURN(const Ref function, FunctionObject::Find(record.buffers.front()));
  return DeliverTo(function.get(), record.BehindFirst());
}

Status PythonCallback::DeliverTo(PyObject* function, const internal::Record& record) {
  Leaves leaves(record.buffers.size());
  const internal::ProfileSpan arguments;
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    if (!leaves.Append(AdoptAsArray(record.buffers[i], &record.blocks[i]))) return TakePythonError();
  }
  if (arguments.on()) [[unlikely]]
    arguments.End({.kind = internal::ProfileKind::kCopy});
  const Ref result = CallTap(function, leaves.data(), leaves.count(), record);
  return result ? OkStatus() : TakePythonError();
}

Ref PythonCallback::CallTap(PyObject* function, PyObject* const* leaves, size_t count, const internal::Record& record) {
  Ref value;
  TapArguments arguments;
  if (signature_.unflatten_value) {
    const Ref tuple = MakeTuple(leaves, count);
    value = tuple ? CallPython(signature_.unflatten_value.get(), tuple.get()) : Ref();
    if (!value) return Ref();
    arguments.AddPositional(value.get());
  } else {
    arguments.AddPositional(leaves[0]);
  }
  if (signature_.transforms && signature_.transforms_by_position) {
    arguments.AddPositional(signature_.transforms.get());
  } else if (signature_.transforms) {
    arguments.Add("transforms", Ref::Borrow(signature_.transforms.get()));
  }
  if (signature_.device_lookup) arguments.Add("device", LookUpDevice(record.device_ordinal));
  if (signature_.index_lookup && arguments.ok()) arguments.Add("index", LookUpIndex(leaves, count, record));
  if (!arguments.ok()) return Ref();
  const size_t count_positional = arguments.num_positional();
  if (arguments.num_keywords() == 0) return CallUser(label(), function, arguments.data(), count_positional, nullptr);
  const Ref names = arguments.KeywordNames();
  return names ? CallUser(label(), function, arguments.data(), count_positional, names.get()) : Ref();
}

Ref PythonCallback::LookUpDevice(int32_t ordinal) const {
  const Ref number(PyLong_FromLong(ordinal));
  return number ? CallPython(signature_.device_lookup.get(), number.get()) : Ref();
}

Ref PythonCallback::LookUpIndex(PyObject* const* leaves, size_t count, const internal::Record& record) const {
  const Ref arrays = MakeTuple(leaves, count);
  const Ref begins(PyTuple_New(static_cast<Py_ssize_t>(record.offsets.size())));
  if (!arrays || !begins) return Ref();
  for (size_t i = 0; i < record.offsets.size(); ++i) {
    PyObject* begin = PyLong_FromLongLong(record.offsets[i]);
    if (begin == nullptr) return Ref();
    PyTuple_SET_ITEM(begins.get(), static_cast<Py_ssize_t>(i), begin);
  }
  PyObject* both[3] = {nullptr, arrays.get(), begins.get()};
  return CallPython(signature_.index_lookup.get(), both + 1, 2, nullptr);
}

}  // namespace callout::python
