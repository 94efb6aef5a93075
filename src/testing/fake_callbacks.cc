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

Status AddOne(const callout_call& call) {
  for (uint32_t i = 0; i < call.num_results; ++i) {
    const auto* from = static_cast<const float*>(call.args[i].data);
    auto* to = static_cast<float*>(call.results[i].data);
    for (uint64_t k = 0; k < call.results[i].size_bytes / sizeof(float); ++k) to[k] = from[k] + 1;
  }
  return OkStatus();
}

}  // namespace callout::internal
