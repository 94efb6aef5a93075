// SPDX-License-Identifier: Apache-2.0
#include "testing/fake_callbacks.h"

namespace callout::internal {

void BlockingCallback::Open() {
  MutexLock lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void BlockingCallback::WaitUntilEntered(int count) {
  MutexLock lock(mutex_);
  while (entered_ < count) changed_.wait(mutex_);
}

int BlockingCallback::entered() const {
  MutexLock lock(mutex_);
  return entered_;
}

void BlockingCallback::Enter() {
  MutexLock lock(mutex_);
  ++entered_;
  changed_.notify_all();
  while (!open_) changed_.wait(mutex_);
}

Status BlockingCallback::Call(const callout_call& /*call*/) {
  Enter();
  return OkStatus();
}

Status BlockingCallback::Deliver(const Record& /*record*/) {
  Enter();
  return OkStatus();
}

}  // namespace callout::internal
