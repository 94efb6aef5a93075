// SPDX-License-Identifier: Apache-2.0
#include "driver/queue.h"

#include <utility>

namespace callout::software_gpu {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool held = false;
};

Gate& TheGate() {
  static auto* const gate = new Gate;  // leaked: queues may outlive static objects
  return *gate;
}

void PassGate() {
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  gate.opened.wait(lock, [&] { return !gate.held; });
}

}  // namespace

Queue::Queue() : thread_([this] { Run(); }) {}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t Queue::Push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
  return ++pushed_;
}

void Queue::WaitFor(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
}

bool Queue::Done(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  return done_ >= ticket;
}

uint64_t Queue::last() {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

void Queue::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !work_.empty(); });
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    PassGate();
    work();
    work = nullptr;  // what it holds may be another queue, whose end is waited for
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

void Queue::Hold() {
  Gate& gate = TheGate();
  const std::lock_guard lock(gate.mutex);
  gate.held = true;
}

void Queue::Release() {
  Gate& gate = TheGate();
  {
    const std::lock_guard lock(gate.mutex);
    gate.held = false;
  }
  gate.opened.notify_all();
}

}  // namespace callout::software_gpu
