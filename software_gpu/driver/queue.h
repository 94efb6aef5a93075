// SPDX-License-Identifier: Apache-2.0
//
// A thread that runs its work in order. Each stream has one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace callout::software_gpu {

/// Thread-safe. The destructor blocks until all work has run.
class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Returns the work's ticket.
  uint64_t Push(std::function<void()> work);
  /// Blocks until the work with this ticket has run.
  void WaitFor(uint64_t ticket);
  bool Done(uint64_t ticket);
  /// Returns the ticket of the latest work.
  uint64_t last();
  /// **Blocks until** fewer than kMaxPending pieces of work are queued, as a thread that launches waits for room in a
  /// device's full queue of launches.
  void WaitForRoom();
  bool HasRoom();
  /// Unique in the process.
  uint64_t id() const { return id_; }

  static constexpr uint64_t kMaxPending = 1024;

  /// Hold() keeps all queues from starting work until Release().
  static void Hold();
  static void Release();

 private:
  void Run();

  const uint64_t id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  uint64_t pushed_ = 0;
  uint64_t done_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace callout::software_gpu
