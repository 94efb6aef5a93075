// SPDX-License-Identifier: Apache-2.0
#include "buffer_callback.h"

#include <nanobind/nanobind.h>

#include <optional>

#include "buffer_object.h"
#include "core/base/cat.h"
#include "core/base/small_buffer.h"
#include "cuda/driver/device.h"
#include "cuda_buffer.h"
#include "errors.h"
#include "execution_context.h"

namespace callout::python {

using internal::SmallBuffer;

namespace {

// Stops automatic runs of Python's cyclic collector while one of these lives. The collector may free another library's
// device memory, and such a call ends a recording of the stream. Requires GIL.
class CollectorPause {
 public:
  CollectorPause() {
    const nanobind::ft_lock_guard lock(g_mutex);
    if (g_pauses++ == 0) g_was_enabled = PyGC_Disable() != 0;
  }
  ~CollectorPause() {
    const nanobind::ft_lock_guard lock(g_mutex);
    if (--g_pauses == 0 && g_was_enabled) PyGC_Enable();
  }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;

  // Runs Python's cyclic collector. The destructors that it calls do not end this thread's recording of a stream.
  static void Collect() {
    const Result<const internal::cuda::Driver*> driver = internal::cuda::Driver::Get();
    if (!driver.ok()) return;
    const internal::cuda::AsideOfCaptures aside(**driver);
    const bool was_enabled = PyGC_Enable() != 0;
    PyGC_Collect();
    if (!was_enabled) PyGC_Disable();
  }

 private:
  // The GIL guards these members. In a free-threaded Python, g_mutex guards them.
  inline static nanobind::ft_mutex g_mutex;
  inline static int g_pauses = 0;
  inline static bool g_was_enabled = false;
};

}  // namespace

// Holds the arguments of the function (a slot in front for the callee, the context, `out`, the buffers of the operands)
// and the buffers of the results.
class BufferCallback::Buffers {
 public:
  explicit Buffers(const callout_call& call)
      : num_args_(call.num_args),
        num_results_(call.num_results),
        on_host_(call.platform == CALLOUT_PLATFORM_HOST),
        slots_(size_t{3} + num_args_ + num_results_) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i] = nullptr;
    const MemorySpace space = MemorySpace::Of(call);
    slots_[1] = NewExecutionContext(space, call.run_id);
    ok_ = slots_[1] != nullptr;
    for (uint32_t i = 0; ok_ && i < num_args_; ++i)
      ok_ = (args()[i] = NewBuffer(call.args[i], false, space)) != nullptr;
    for (uint32_t i = 0; ok_ && i < num_results_; ++i) {
      ok_ = (results()[i] = NewBuffer(call.results[i], true, space)) != nullptr;
    }
  }
  ~Buffers() {
    for (size_t i = 0; i < slots_.size(); ++i) Py_XDECREF(slots_[i]);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  bool ok() const { return ok_; }
  PyObject* const* call_arguments() { return slots_.data() + 1; }
  PyObject* context() { return slots_[1]; }
  PyObject** args() { return slots_.data() + 3; }
  PyObject** results() { return args() + num_args_; }
  uint32_t num_args() const { return num_args_; }
  uint32_t num_results() const { return num_results_; }
  void SetOut(Ref out) { slots_[2] = out.release(); }

  /// Ends the life of all buffers. Returns an error if an object that was made of a buffer still refers to its memory.
  Status End(bool recorded) {
    Py_CLEAR(slots_[2]);  // `out` refers to the result buffers
    bool kept = false;
    ForEach([&](PyObject* buffer, const char*, uint32_t) { kept |= !EndBuffer(buffer); });
    if (!kept) [[likely]]
      return OkStatus();
    // A reference that keeps the buffer may be part of a cycle, which the collector finds.
    if (recorded) {
      CollectorPause::Collect();
    } else {
      PyGC_Collect();
    }
    std::string what;
    ForEach([&](PyObject* buffer, const char* kind, uint32_t i) {
      if (what.empty() && BufferIsKept(buffer)) what = internal::Cat(kind, i);
    });
    if (what.empty()) return OkStatus();
    return FailedPrecondition("it kept an array, a memoryview or a tensor of " + what +
                              " beyond its call. The memory is XLA's and is reused: drop it, and copy what is to be "
                              "kept (" +
                              (on_host_ ? "numpy.array" : "x.copy() of CuPy, x.clone() of PyTorch") + ")");
  }

 private:
  template <typename Visit>
  void ForEach(Visit visit) {
    for (uint32_t i = 0; i < num_args_; ++i) visit(args()[i], "argument ", i);
    for (uint32_t i = 0; i < num_results_; ++i) visit(results()[i], "result ", i);
  }

  const uint32_t num_args_;
  const uint32_t num_results_;
  const bool on_host_;
  SmallBuffer<PyObject*, 12> slots_;
  bool ok_;
};

namespace {

Status CheckReturned(PyObject* value) {
  if (value == Py_None) return OkStatus();
  return InvalidArgument(std::string("a buffer callback must return None and write into its results; it returned an "
                                     "object of type ") +
                         Py_TYPE(value)->tp_name);
}

}  // namespace

BufferCallback::BufferCallback(std::string label, BufferSignature signature)
    : Callback(std::move(label)), signature_(std::move(signature)) {}

int BufferCallback::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(signature_.function.get());
  Py_VISIT(signature_.unflatten_out.get());
  Py_VISIT(signature_.unflatten.get());
  return 0;
}

Status BufferCallback::Call(const callout_call& call) {
  return CallFromProgram(*this, call, signature_.numpy_only, [&] { return CallWithGil(call); });
}

Status BufferCallback::CheckTap(size_t /*num_leaves*/) const {
  return InvalidArgument("callback '" + label() + "' is a buffer callback, which takes no taps");
}

Status BufferCallback::Deliver(const internal::Record&) {
  return InternalError("a buffer callback does not take taps");
}

Status BufferCallback::CallWithGil(const callout_call& call) {
  if (!signature_.unflatten_out && call.num_results != 1) {
    return InvalidArgument(internal::Cat("it has one result, and the program declares ", call.num_results));
  }
  CALLOUT_ASSIGN_OR_RETURN(const bool recorded, IsRecorded(MemorySpace::Of(call)));
  std::optional<CollectorPause> pause;
  if (recorded) pause.emplace();
  Buffers buffers(call);
  if (!buffers.ok()) return TakePythonError();
  Status status;
  {
    const Ref value = CallFunction(buffers);
    // The variables of a failed function's frames would keep arrays over memory that XLA reuses.
    status = value ? CheckReturned(value.get()) : TakePythonError(Frames::kClear);
  }
  Status ended = buffers.End(recorded);
  if (status.ok() || ended.ok()) return status.ok() ? std::move(ended) : std::move(status);
  return WithoutException(status, ended);
}

Ref BufferCallback::CallFunction(Buffers& buffers) {
  if (signature_.unflatten_out) {
    const Ref leaves = MakeTuple(buffers.results(), buffers.num_results());
    Ref out = leaves ? CallPython(signature_.unflatten_out.get(), leaves.get()) : Ref();
    if (!out) return Ref();
    buffers.SetOut(std::move(out));
  } else {
    buffers.SetOut(Ref::Borrow(buffers.results()[0]));
  }
  PyObject* function = signature_.function.get();
  if (!signature_.unflatten) {
    return CallUser(label(), function, buffers.call_arguments(), size_t{2} + buffers.num_args(), nullptr);
  }
  const Ref leaves = MakeTuple(buffers.call_arguments(), size_t{2} + buffers.num_args());
  const Ref structure = leaves ? CallPython(signature_.unflatten.get(), leaves.get()) : Ref();
  return structure ? CallUserWithStructure(label(), function, structure.get()) : Ref();
}

}  // namespace callout::python
