// SPDX-License-Identifier: Apache-2.0
//
// Exports callbacks as callout_closures in capsules. A host in the same process, which may have a core of its own,
// takes a closure and calls it without knowing Python.
#include "module_bindings.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

#include "calling.h"
#include "callout/abi.h"
#include "core/base/process_state.h"
#include "core/base/status.h"
#include "core/callbacks/native_function.h"
#include "errors.h"
#include "gil.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

constexpr const char* kCapsuleName = "callout_closure";

using Context = std::shared_ptr<internal::Callback>;

Status CallInScope(internal::Callback& callback, const callout_call& call) {
  if (internal::ProcessIsForkedChild()) return internal::ForkedChildError();
  // kDrop, because the host's threads may end at any time.
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
  const callout_call outer = own;
  own.struct_size = sizeof(own);
  own.set_error = nullptr;
  own.error_context = nullptr;  // callee errors go to `own`; error_context would be XLA's frame
  const Status status = CallInScope(**static_cast<Context*>(context), own);
  if (status.ok()) [[likely]]
    return 0;
  if (outer.set_error != nullptr) internal::FailCall(outer, status);
  return static_cast<int32_t>(status.code());
}

// Runs on any thread, with the GIL or without: SharedRef drops the Python objects that the callback refers to.
void DestroyContext(void* context) { delete static_cast<Context*>(context); }

void DestroyCapsule(PyObject* capsule) {
  auto* closure = static_cast<callout_closure*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
  if (closure->destroy != nullptr) closure->destroy(closure->context);  // the closure was not taken over
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
