// SPDX-License-Identifier: Apache-2.0
#include "borrowed_callback.h"

#include <utility>

namespace callout::python {

using internal::MutexLock;

BorrowedCallback::BorrowedCallback(internal::Callback& like)
    : Callback(like.label()),
      worker_(like.worker()),
      log_source_(like.log_source()),
      inspects_(like.inspector() != nullptr) {}

std::shared_ptr<internal::Callback> BorrowedCallback::borrowed() {
  MutexLock lock(mutex_);
  return borrowed_;
}

// Returns the callback if no record is under way to it. The caller destroys it after unlocking: its destructor may run
// any code.
std::shared_ptr<internal::Callback> BorrowedCallback::LetGoIfIdle() {
  return under_way_ == 0 && !unflushed_ ? std::move(borrowed_) : nullptr;
}

void BorrowedCallback::Acquire(const std::shared_ptr<internal::Callback>& callback) {
  MutexLock lock(mutex_);
  ++under_way_;
  if (borrowed_ == nullptr) borrowed_ = callback;
}

void BorrowedCallback::Release() {
  std::shared_ptr<internal::Callback> idle;
  MutexLock lock(mutex_);
  --under_way_;
  idle = LetGoIfIdle();
}

Status BorrowedCallback::Call(const callout_call& /*call*/) {
  return FailedPrecondition("'" + label() + "' takes taps; it cannot be called for a result");
}

Result<internal::Inspector::Send> BorrowedCallback::Inspect(const internal::Record& record) {
  return borrowed()->inspector()->Inspect(record);
}

Status BorrowedCallback::Deliver(const internal::Record& record) {
  struct Arrival {  // the destructor also counts a record whose delivery throws
    BorrowedCallback& self;
    ~Arrival() {
      MutexLock lock(self.mutex_);
      --self.under_way_;
      self.unflushed_ = true;
    }
  };
  const Arrival arrival{*this};
  return borrowed()->Deliver(record);
}

Status BorrowedCallback::Flush() {
  const std::shared_ptr<internal::Callback> callback = borrowed();
  if (callback == nullptr) return OkStatus();
  std::shared_ptr<internal::Callback> idle;
  {
    MutexLock lock(mutex_);
    unflushed_ = false;
    idle = LetGoIfIdle();
  }
  return callback->Flush();
}

}  // namespace callout::python
