// SPDX-License-Identifier: Apache-2.0
#include "lent_callback.h"

#include <utility>

namespace callout::python {

using internal::MutexLock;

LentCallback::LentCallback(internal::Callback& like)
    : Callback(like.label()),
      worker_(like.worker()),
      log_source_(like.log_source()),
      inspects_(like.inspector() != nullptr) {}

std::shared_ptr<internal::Callback> LentCallback::lent() {
  MutexLock lock(mutex_);
  return lent_;
}

// What it returns is destroyed without the lock: that may run anything.
std::shared_ptr<internal::Callback> LentCallback::LetGoIfIdle() {
  return under_way_ == 0 && !unflushed_ ? std::move(lent_) : nullptr;
}

void LentCallback::Lend(const std::shared_ptr<internal::Callback>& callback) {
  MutexLock lock(mutex_);
  ++under_way_;
  if (lent_ == nullptr) lent_ = callback;
}

void LentCallback::TakeBack() {
  std::shared_ptr<internal::Callback> idle;
  MutexLock lock(mutex_);
  --under_way_;
  idle = LetGoIfIdle();
}

Status LentCallback::Call(const callout_call& /*call*/) {
  return FailedPrecondition("'" + label() + "' takes taps; it cannot be called for a result");
}

Result<internal::Inspector::Send> LentCallback::Inspect(const internal::Record& record) {
  return lent()->inspector()->Inspect(record);
}

Status LentCallback::Deliver(const internal::Record& record) {
  struct Arrival {  // also of a record that makes the callback throw
    LentCallback& self;
    ~Arrival() {
      MutexLock lock(self.mutex_);
      --self.under_way_;
      self.unflushed_ = true;
    }
  };
  const Arrival arrival{*this};
  return lent()->Deliver(record);
}

Status LentCallback::Flush() {
  const std::shared_ptr<internal::Callback> callback = lent();
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
