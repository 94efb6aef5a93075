// SPDX-License-Identifier: Apache-2.0
#include "driver/objects.h"

namespace callout::software_gpu {

void Milestone::Reach() {
  {
    const std::lock_guard lock(mutex_);
    if (reached_) return;
    reached_ = true;
    time_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

bool Milestone::Reached() {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void Milestone::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

std::chrono::steady_clock::time_point Milestone::time() {
  const std::lock_guard lock(mutex_);
  return time_;
}

bool Mark::Done() const {
  if (milestone != nullptr) return milestone->Reached();
  return queue == nullptr || queue->Done(ticket);
}

void Mark::Wait() const {
  if (milestone != nullptr) milestone->Wait();
  if (queue != nullptr) queue->WaitFor(ticket);
}

std::chrono::steady_clock::time_point Mark::Time() const { return milestone != nullptr ? milestone->time() : *time; }

}  // namespace callout::software_gpu
