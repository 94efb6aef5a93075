// SPDX-License-Identifier: Apache-2.0
//
// Models of the queue and the wakeup with the smallest possible consumer: it waits with a time limit at most once
// before it sleeps, so that a lost wakeup is a deadlock.
#pragma once

#include <cstdint>

#include "delivery.h"
#include "runner.h"

namespace callout::model {

/// Thread 0 consumes until it has `records` records; the other threads produce.
template <typename Suite, int kThreads>
struct QueueSuite : DeliverySuite<Suite, kThreads> {
  std::optional<internal::Wakeup> wakeup;
  std::optional<BoundedQueue> own;
  uint64_t last_ticket = 0;
  bool backoff = false;

  void before() {
    DeliverySuite<Suite, kThreads>::before();
    wakeup.emplace();
    this->queue = &own.emplace(this->capacity, *wakeup);
  }
  void after() {
    own.reset();
    wakeup.reset();
    DeliverySuite<Suite, kThreads>::after();
  }

  // Consumes by the steps of DeliveryThread::Run and DrainQueue.
  void Consume(uint64_t records) {
    while (own->delivered() < records) {
      if (backoff && !own->HasWork()) wakeup->TimedWait(internal::IdleBackoff::kShortest);
      if (!own->HasWork()) wakeup->Sleep([this] { return own->HasWork(); });
      bool progress = false;
      while (RecordHeader* record = own->Peek()) {
        progress = true;
        RL_ASSERT(record->ticket == ++last_ticket);
        internal::FreeBlock(record->blocks()[0]);
        own->Pop(record);
        record->~RecordHeader();
        own->PublishRoom();
      }
      own->PublishProgress();
      if (!progress) rl::yield(1, callout::model::Here(__FILE__, __LINE__));  // an earlier record is not committed yet
    }
  }
};

struct QueueKeepsOrderAndWakesItsConsumer : QueueSuite<QueueKeepsOrderAndWakesItsConsumer, 3> {
  void thread(unsigned index) {
    if (index == 0) return Consume(3);
    Push(1, 1, kHalfChunk);
    if (index == 1) Push(2);
  }
};

struct ProducersWaitForRoom : QueueSuite<ProducersWaitForRoom, 3> {
  ProducersWaitForRoom() { capacity = 1; }
  void thread(unsigned index) {
    if (index == 0) return Consume(3);
    Push(1, 1, 0, WhenFull::kWait);
    if (index == 1) Push(2, 1, 0, WhenFull::kWait);
  }
};

// With a capacity of 1, each push except the first of an empty queue ends a timed wait.
struct TimedWaitsLoseNoWakeup : ProducersWaitForRoom {
  TimedWaitsLoseNoWakeup() { backoff = true; }
};

struct ClosingReleasesWaiters : QueueSuite<ClosingReleasesWaiters, 2> {
  ClosingReleasesWaiters() { capacity = 1; }
  void thread(unsigned index) {
    if (index == 0) {
      own->Close();
      return;
    }
    const auto first = Push(1, 1, 0, WhenFull::kWait);
    const auto second = Push(2, 1, 0, WhenFull::kWait);
    RL_ASSERT(first != BoundedQueue::Outcome::kClosed || second == BoundedQueue::Outcome::kClosed);
    RL_ASSERT(second == BoundedQueue::Outcome::kClosed);
  }
  void after() {
    last_ticket += own->CountValues();
    QueueSuite::after();
  }
};

inline void AddQueueModels(std::vector<Model>& models) {
  models.push_back(Searched<QueueKeepsOrderAndWakesItsConsumer>("QueueKeepsOrder", 1, Weakened::kAll));
  models.push_back(
      Sampled<QueueKeepsOrderAndWakesItsConsumer>("QueueWakesItsConsumer", 5000, Weakened::kSequentialConsistency));
  models.push_back(Searched<ProducersWaitForRoom>("ProducersWaitForRoom", 0, Weakened::kSequentialConsistency));
  models.push_back(Sampled<ProducersWaitForRoom>("ProducersWaitForRoomSampled", 5000));
  models.push_back(Sampled<TimedWaitsLoseNoWakeup>("TimedWaitsLoseNoWakeup", 5000, Weakened::kSequentialConsistency));
  models.push_back(Searched<ClosingReleasesWaiters>("ClosingReleasesWaiters", 2, Weakened::kNothing));
}

}  // namespace callout::model
