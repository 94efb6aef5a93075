// SPDX-License-Identifier: Apache-2.0
//
// A thread that runs what it is given, in order: what a stream is made of.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace callout::software_gpu {

/// Thread-safe. The destructor blocks until everything has run.
class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// The work's ticket.
  uint64_t Push(std::function<void()> work);
  /// Blocks until the work with this ticket has run.
  void WaitFor(uint64_t ticket);
  bool Done(uint64_t ticket);
  /// Of the latest work.
  uint64_t last();
  /// **Blocks until** fewer than kMaxPending are queued: a device's queue of launches is full then, and the thread that
  /// launches waits.
  void WaitForRoom();
  bool HasRoom();
  /// Unique in the process.
  uint64_t id() const { return id_; }

  static constexpr uint64_t kMaxPending = 1024;

  /// While held, no queue starts anything.
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
