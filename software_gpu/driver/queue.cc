// SPDX-License-Identifier: Apache-2.0
#include "driver/queue.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
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

uint64_t NextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// CALLOUT_SOFTWARE_GPU_DELAYS: waits up to 200 us, or not at all, before each piece of work. Each queue has a random
// sequence of its own, so that unordered work runs in any order.
class Delays {
 public:
  explicit Delays(uint64_t id) {
    const char* const seed = std::getenv("CALLOUT_SOFTWARE_GPU_DELAYS");
    if (seed != nullptr) random_.emplace(std::strtoull(seed, nullptr, 10) * 1000003 + id);
  }

  void Wait() {
    if (!random_.has_value()) return;
    const uint64_t drawn = (*random_)();
    if (drawn % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn / 4 % 200));
    if (drawn % 4 == 1) std::this_thread::yield();
  }

 private:
  std::optional<std::mt19937_64> random_;
};

}  // namespace

Queue::Queue() : id_(NextId()), thread_([this] { Run(); }) {}

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

void Queue::WaitForRoom() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pushed_ - done_ < kMaxPending; });
}

bool Queue::HasRoom() {
  const std::lock_guard lock(mutex_);
  return pushed_ - done_ < kMaxPending;
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
  Delays delays(id_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !work_.empty(); });
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    PassGate();
    delays.Wait();
    work();
    work = nullptr;  // the work may hold another queue, whose destructor waits
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
