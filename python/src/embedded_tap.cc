// SPDX-License-Identifier: Apache-2.0
#include "embedded_tap.h"

#include "errors.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {

Status EmbeddedTap::Call(const callout_call& /*call*/) {
  return FailedPrecondition("'" + label() + "' takes taps; it cannot be called for a result");
}

Status EmbeddedTap::Deliver(const internal::Record& record) {
  std::shared_ptr<Callback> receiver = made();
  if (receiver == nullptr) {
    CALLOUT_ASSIGN_OR_RETURN(receiver, Make());
  }
  return receiver->Deliver(record);
}

std::shared_ptr<internal::Callback> EmbeddedTap::made() {
  const nb::ft_lock_guard lock(mutex_);
  return made_;
}

Result<std::shared_ptr<internal::Callback>> EmbeddedTap::Make() {
  try {
    const nb::object make = nb::module_::import_(maker_.module).attr(maker_.function);
    std::shared_ptr<Callback> made = nb::cast<CallbackHandle&>(make(payload_)).callback;
    const nb::ft_lock_guard lock(mutex_);
    if (made_ == nullptr) made_.swap(made);  // another device's thread may have made it first, and be using it
    log_source_.store(made_->log_source(), std::memory_order_relaxed);
    return made_;
  } catch (nb::python_error& error) {
    error.restore();
    return TakePythonError();
  }
}

}  // namespace callout::python
