// SPDX-License-Identifier: Apache-2.0
//
// Compares the bounded queue with the simplest queue: a mutex, a deque, and a vector for each record.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/delivery/bounded_queue.h"

namespace callout::internal {
namespace {

constexpr uint64_t kCapacity = 256'000'000;
constexpr int kBurst = 256;

class OurQueue {
 public:
  void Push(const char* data, size_t bytes) {
    RecordHeader* header = nullptr;
    const size_t record_bytes = sizeof(RecordHeader) + bytes;
    const auto outcome =
        queue_.Reserve(RecordKind::kValue, record_bytes, record_bytes, BoundedQueue::WhenFull::kWait, &header);
    if (outcome != BoundedQueue::Outcome::kTaken) return;
    header->num_buffers = 0;
    header->site = nullptr;
    std::memcpy(static_cast<void*>(header + 1), data, bytes);
    queue_.Commit(header);
  }

  // Returns the number of records taken out; at most kBurst.
  int PopSome() {
    int popped = 0;
    for (RecordHeader* header = nullptr; popped < kBurst && (header = queue_.Peek()) != nullptr; ++popped) {
      benchmark::DoNotOptimize(*reinterpret_cast<char*>(header + 1));
      queue_.Pop(header);
    }
    queue_.PublishProgress();
    return popped;
  }

 private:
  Wakeup wakeup_;
  BoundedQueue queue_{kCapacity, wakeup_};
};

class NaiveQueue {
 public:
  void Push(const char* data, size_t bytes) {
    std::vector<char> record(sizeof(RecordHeader) + bytes);
    std::memcpy(record.data() + sizeof(RecordHeader), data, bytes);
    const std::lock_guard lock(mutex_);
    records_.push_back(std::move(record));
  }

  int PopSome() {
    int popped = 0;
    for (; popped < kBurst; ++popped) {
      std::vector<char> record;
      {
        const std::lock_guard lock(mutex_);
        if (records_.empty()) break;
        record = std::move(records_.front());
        records_.pop_front();
      }
      benchmark::DoNotOptimize(record[sizeof(RecordHeader)]);
    }
    return popped;
  }

 private:
  std::mutex mutex_;
  std::deque<std::vector<char>> records_;
};

// One thread produces and consumes in bursts: the cost of the work where no thread waits for another.
template <typename Queue>
void PushThenPop(benchmark::State& state) {
  Queue queue;
  const std::vector<char> data(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    for (int i = 0; i < kBurst; ++i) queue.Push(data.data(), data.size());
    int popped = 0;
    while (popped < kBurst) popped += queue.PopSome();
  }
  state.SetItemsProcessed(state.iterations() * kBurst);
}

// Producers push as fast as they can while another thread takes records out. The measured time is the producers'.
template <typename Queue>
void PushWhilePopped(benchmark::State& state) {
  static Queue* queue = nullptr;
  static std::atomic<bool> stop{false};
  static std::thread consumer;
  if (state.thread_index() == 0) {
    queue = new Queue;
    stop.store(false);
    consumer = std::thread([] {
      while (!stop.load(std::memory_order_relaxed)) {
        if (queue->PopSome() == 0) std::this_thread::yield();
      }
      while (queue->PopSome() > 0) {
      }
    });
  }
  const std::vector<char> data(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) queue->Push(data.data(), data.size());
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    stop.store(true);
    consumer.join();
    delete queue;
  }
}

BENCHMARK_TEMPLATE(PushThenPop, OurQueue)->Arg(4)->Arg(1024);
BENCHMARK_TEMPLATE(PushThenPop, NaiveQueue)->Arg(4)->Arg(1024);
BENCHMARK_TEMPLATE(PushWhilePopped, OurQueue)
    ->Arg(4)
    ->Arg(1024)
    ->ThreadRange(1, 2)
    ->UseRealTime()
    ->Iterations(1'000'000);
BENCHMARK_TEMPLATE(PushWhilePopped, NaiveQueue)
    ->Arg(4)
    ->Arg(1024)
    ->ThreadRange(1, 2)
    ->UseRealTime()
    ->Iterations(1'000'000);

}  // namespace
}  // namespace callout::internal
