// SPDX-License-Identifier: Apache-2.0
//
// Callbacks as callout_closures in capsules: what a host of the same process, which may have a core of its own, takes
// and calls without knowing Python.
#include "module_bindings.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

#include "calling.h"
#include "callout/abi.h"
#include "core/base/process_state.h"
#include "core/base/status.h"
#include "errors.h"
#include "gil.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

constexpr const char* kCapsuleName = "callout_closure";

using Context = std::shared_ptr<internal::Callback>;

Status CallInScope(internal::Callback& callback, const callout_call& call) {
  if (internal::ProcessIsForkedChild()) {
    return FailedPrecondition(
        "ForkError: this process was forked from one that had used callout; the callback is not called in it");
  }
  // The host's threads may come and go.
  const GilScope gil(ThreadState::kDrop);
  if (!gil.ok()) return Unavailable("the Python interpreter is going away");
  try {
    return callback.Call(call);
  } catch (const std::exception&) {
    return internal::CaughtStatus();
  }
}

int32_t CallClosure(void* context, const callout_call* call) {
  callout_call own = {};
  std::memcpy(&own, call, std::min(call->struct_size, sizeof(own)));
  const auto set_error = own.set_error;
  void* const error_context = own.error_context;
  own.struct_size = sizeof(own);
  own.set_error = nullptr;
  own.error_context = nullptr;  // inside it would be XLA's frame
  const Status status = CallInScope(**static_cast<Context*>(context), own);
  if (status.ok()) [[likely]]
    return 0;
  if (set_error != nullptr) {
    set_error(error_context, static_cast<int32_t>(status.code()), status.message().data(), status.message().size());
  }
  return static_cast<int32_t>(status.code());
}

// Any thread, with the GIL or without: what the callback refers to is dropped as SharedRef says.
void DestroyContext(void* context) { delete static_cast<Context*>(context); }

void DestroyCapsule(PyObject* capsule) {
  auto* closure = static_cast<callout_closure*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
  if (closure->destroy != nullptr) closure->destroy(closure->context);  // nobody has taken it
  delete closure;
}

nb::object ClosureCapsule(const CallbackHandle& handle) {
  auto context = std::make_unique<Context>(handle.callback);
  auto closure = std::make_unique<callout_closure>(
      callout_closure{sizeof(callout_closure), &CallClosure, context.get(), &DestroyContext});
  PyObject* capsule = PyCapsule_New(closure.get(), kCapsuleName, &DestroyCapsule);
  if (capsule == nullptr) nb::raise_python_error();
  (void)closure.release();
  (void)context.release();
  return nb::steal(capsule);
}

}  // namespace

void BindClosures(nb::module_& m) {
  m.def("closure_capsule", &ClosureCapsule, nb::arg("callback"),
        "A capsule \"callout_closure\" over a closure of its own, which keeps the callback.");
}

}  // namespace callout::python
