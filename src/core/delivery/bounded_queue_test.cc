// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/bounded_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "core/base/block_pool.h"
#include "testing/live_counts.h"
#include "testing/spin.h"

namespace callout::internal {
namespace {

constexpr std::chrono::hours kLong{1};  // longer than any test may run

TEST(WakeupTest, InterruptBeforeANapEndsIt) {
  Wakeup wakeup;
  wakeup.Interrupt();
  wakeup.TimedWait(kLong);
}

TEST(WakeupTest, InterruptDuringANapEndsIt) {
  Wakeup wakeup;
  std::latch started(1);
  std::thread waiter([&] {
    started.count_down();
    wakeup.TimedWait(kLong);
  });
  started.wait();
  wakeup.Interrupt();
  waiter.join();
}

TEST(WakeupTest, InterruptCountsOnce) {
  Wakeup wakeup;
  wakeup.Interrupt();
  wakeup.TimedWait(kLong);
  bool asked = false;
  wakeup.Sleep([&] { return asked = true; });
  EXPECT_TRUE(asked) << "the interrupt was still pending after the nap";
}

TEST(WakeupTest, SleepEndsAtOnceIfThereIsWork) {
  Wakeup wakeup;
  wakeup.Sleep([] { return true; });
}

TEST(WakeupTest, NotifyWakesASleeper) {
  Wakeup wakeup;
  std::atomic<bool> work{false};
  std::latch asked(1);
  std::thread sleeper([&] {
    bool first = true;
    wakeup.Sleep([&] {
      if (first) asked.count_down();
      first = false;
      return work.load();
    });
  });
  asked.wait();
  work.store(true);
  wakeup.Notify();
  sleeper.join();
}

TEST(WakeupTest, NotifyDoesNotTouchWhoIsAwake) {
  Wakeup wakeup;
  wakeup.Notify();
  bool asked = false;
  wakeup.Sleep([&] { return asked = true; });
  EXPECT_TRUE(asked) << "Notify left an interrupt behind";
}

TEST(WakeupTest, EndNapEndsANapThatHasBegun) {
  Wakeup wakeup;
  std::thread waiter([&] { wakeup.TimedWait(kLong); });
  SpinUntil([&] { return wakeup.rest() == Rest::kTimedWait; });
  wakeup.Notify();  // only wakes sleepers
  EXPECT_EQ(wakeup.rest(), Rest::kTimedWait);
  wakeup.EndTimedWait();
  waiter.join();
  EXPECT_EQ(wakeup.rest(), Rest::kAwake);
}

TEST(WakeupTest, EndNapTouchesNeitherWhoIsAwakeNorWhoSleeps) {
  Wakeup wakeup;
  wakeup.EndTimedWait();
  std::atomic<bool> work{false};
  std::thread sleeper([&] {
    wakeup.Sleep([&] { return work.load(); });
    EXPECT_TRUE(work.load()) << "EndTimedWait woke it";
  });
  SpinUntil([&] { return wakeup.rest() == Rest::kSleeping; });
  wakeup.EndTimedWait();
  work.store(true);
  wakeup.Notify();
  sleeper.join();
}

// Each thread waits for the other's last step, so a lost wake-up hangs the test.
TEST(WakeupTest, NoWakeupIsLost) {
  Wakeup wakeup;
  std::atomic<int> produced{0};
  std::atomic<int> consumed{0};
  constexpr int kRounds = 2000;
  std::thread consumer([&] {
    while (consumed.load() < kRounds) {
      wakeup.Sleep([&] { return produced.load() > consumed.load(); });
      if (produced.load() > consumed.load()) consumed.fetch_add(1);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    produced.fetch_add(1);
    wakeup.Notify();
    while (consumed.load() <= i) std::this_thread::yield();
  }
  consumer.join();
}

using Outcome = BoundedQueue::Outcome;
using WhenFull = BoundedQueue::WhenFull;

constexpr size_t kSmall = sizeof(RecordHeader);

class BoundedQueueTest : public LiveCountTest {
 protected:
  static constexpr uint64_t kCapacity = 1000;

  RecordHeader* Reserve(uint64_t charged, WhenFull when_full = WhenFull::kGiveUp, size_t bytes = kSmall) {
    RecordHeader* record = nullptr;
    EXPECT_EQ(queue_.Reserve(RecordKind::kValue, bytes, charged, when_full, &record), Outcome::kTaken);
    return record;
  }
  Outcome TryReserve(uint64_t charged, WhenFull when_full = WhenFull::kGiveUp) {
    RecordHeader* record = nullptr;
    const Outcome outcome = queue_.Reserve(RecordKind::kValue, kSmall, charged, when_full, &record);
    if (outcome == Outcome::kTaken) queue_.Commit(record);
    return outcome;
  }
  void Push(int64_t value, uint64_t charged = 1) {
    RecordHeader* record = Reserve(charged);
    record->run_id = value;
    queue_.Commit(record);
  }
  // Pops the next record and returns its value; -1 if there is none.
  int64_t Take() {
    RecordHeader* record = queue_.Peek();
    if (record == nullptr) return -1;
    const int64_t value = record->run_id;
    queue_.Pop(record);
    return value;
  }

  Wakeup wakeup_;
  BoundedQueue queue_{kCapacity, wakeup_};
};

TEST_F(BoundedQueueTest, IsEmptyAtFirst) {
  EXPECT_EQ(queue_.Peek(), nullptr);
  EXPECT_FALSE(queue_.HasWork());
  EXPECT_EQ(queue_.taken(), 0U);
  EXPECT_EQ(queue_.delivered(), 0U);
}

TEST_F(BoundedQueueTest, RecordsComeOutInOrder) {
  for (int64_t i = 0; i < 10; ++i) Push(i);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(Take(), i);
  EXPECT_EQ(Take(), -1);
}

TEST_F(BoundedQueueTest, RecordsAreNumberedFromOne) {
  for (uint64_t i = 1; i <= 3; ++i) {
    const RecordHeader* record = Reserve(1);
    EXPECT_EQ(record->ticket, i);
    EXPECT_EQ(record->sequence, i);
    EXPECT_EQ(queue_.taken(), i);
  }
}

TEST_F(BoundedQueueTest, SequenceCountsValuesOnly) {
  Push(0);
  RecordHeader* retire = nullptr;
  ASSERT_EQ(queue_.Reserve(RecordKind::kRetireSite, kSmall, 0, WhenFull::kExceed, &retire), Outcome::kTaken);
  queue_.Commit(retire);
  const RecordHeader* value = Reserve(1);
  EXPECT_EQ(value->ticket, 3U);
  EXPECT_EQ(value->sequence, 2U);
  EXPECT_EQ(queue_.Stats().records, 2U);
}

TEST_F(BoundedQueueTest, UncommittedRecordHoldsBackThoseBehindIt) {
  RecordHeader* a = Reserve(1);
  RecordHeader* b = Reserve(1);
  RecordHeader* c = Reserve(1);
  a->run_id = 1;
  b->run_id = 2;
  c->run_id = 3;
  queue_.Commit(c);
  EXPECT_FALSE(queue_.HasWork()) << "the consumer would look again and again";
  EXPECT_EQ(Take(), -1);
  queue_.Commit(a);
  EXPECT_TRUE(queue_.HasWork());
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), -1);
  queue_.Commit(b);
  EXPECT_EQ(Take(), 2);
  EXPECT_EQ(Take(), 3);
  EXPECT_FALSE(queue_.HasWork());
}

TEST_F(BoundedQueueTest, WhatIsTakenIsUndeliveredUntilProgressIsPublished) {
  EXPECT_FALSE(queue_.HasUndelivered());
  RecordHeader* record = Reserve(1);
  EXPECT_TRUE(queue_.HasUndelivered());
  queue_.Commit(record);
  EXPECT_EQ(queue_.Peek(), record);
  queue_.Pop(record);
  EXPECT_TRUE(queue_.HasUndelivered());
  queue_.PublishProgress();
  EXPECT_FALSE(queue_.HasUndelivered());
}

TEST_F(BoundedQueueTest, ReserveGivesUpWhenFull) {
  EXPECT_EQ(TryReserve(600), Outcome::kTaken);
  EXPECT_EQ(TryReserve(401), Outcome::kFull);
  EXPECT_EQ(TryReserve(400), Outcome::kTaken);
  EXPECT_EQ(TryReserve(1), Outcome::kFull);
  EXPECT_EQ(queue_.Stats().records, 2U);
  EXPECT_EQ(queue_.Stats().blocked, 0U);
}

TEST_F(BoundedQueueTest, RoomComesBackWhenItIsPublished) {
  Push(1, 600);
  Push(2, 400);
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(TryReserve(600), Outcome::kFull);
  queue_.PublishRoom();
  EXPECT_EQ(queue_.delivered(), 0U) << "room is not delivery";
  EXPECT_EQ(TryReserve(600), Outcome::kTaken);
  queue_.PublishProgress();
  EXPECT_EQ(queue_.delivered(), 1U);
}

TEST_F(BoundedQueueTest, ExceedTakesBeyondTheCapacity) {
  EXPECT_EQ(TryReserve(1000), Outcome::kTaken);
  EXPECT_EQ(TryReserve(500, WhenFull::kExceed), Outcome::kTaken);
  EXPECT_EQ(queue_.Stats().pending_bytes, 1500U);
  EXPECT_EQ(TryReserve(1), Outcome::kFull);
}

TEST_F(BoundedQueueTest, RecordLargerThanTheCapacityIsTakenWhenEmpty) {
  EXPECT_EQ(TryReserve(5000), Outcome::kTaken);
  EXPECT_EQ(TryReserve(5000), Outcome::kFull);
  ASSERT_NE(Take(), -1);
  queue_.PublishProgress();
  EXPECT_EQ(TryReserve(5000), Outcome::kTaken);
}

TEST_F(BoundedQueueTest, CapacityAppliesFromNowOn) {
  Push(1, 1000);
  queue_.SetCapacity(1500);
  EXPECT_EQ(TryReserve(500), Outcome::kTaken);
  queue_.SetCapacity(100);
  EXPECT_EQ(TryReserve(1), Outcome::kFull);
  EXPECT_EQ(queue_.Stats().capacity_bytes, 100U);
}

TEST_F(BoundedQueueTest, StatsFollowTheRecords) {
  Push(1, 300);
  Push(2, 500);
  EXPECT_EQ(queue_.Stats().pending_bytes, 800U);
  EXPECT_EQ(Take(), 1);
  queue_.PublishProgress();
  Push(3, 100);
  const QueueStats stats = queue_.Stats();
  EXPECT_EQ(stats.records, 3U);
  EXPECT_EQ(stats.delivered, 1U);
  EXPECT_EQ(stats.pending_bytes, 600U);
  EXPECT_EQ(stats.high_water_bytes, 800U);
  EXPECT_EQ(stats.capacity_bytes, kCapacity);
}

TEST_F(BoundedQueueTest, TheHighestLevelCountsWhatWasGivenBackBefore) {
  for (int i = 1; i <= 20; ++i) {  // never more than two at a time
    Push(i, 300);
    Push(i, 300);
    for (int k = 0; k < 2; ++k) EXPECT_EQ(Take(), i);
    queue_.PublishProgress();
  }
  EXPECT_EQ(queue_.Stats().high_water_bytes, 600U);
  for (int i = 1; i <= 3; ++i) Push(i, 300);
  EXPECT_EQ(queue_.Stats().high_water_bytes, 900U);
}

TEST_F(BoundedQueueTest, ClosedQueueTakesNothingUntilReopened) {
  Push(1);
  EXPECT_EQ(queue_.Close(), 0);
  for (const WhenFull when_full : {WhenFull::kGiveUp, WhenFull::kWait, WhenFull::kExceed}) {
    EXPECT_EQ(TryReserve(1, when_full), Outcome::kClosed);
  }
  EXPECT_EQ(Take(), 1) << "what was taken before still comes out";
  queue_.Reopen();
  EXPECT_EQ(TryReserve(1), Outcome::kTaken);
}

TEST_F(BoundedQueueTest, WaitingProducerGetsTheRoomThatIsGivenBack) {
  Push(1, 1000);
  Outcome outcome = Outcome::kFull;
  std::thread producer([&] { outcome = TryReserve(500, WhenFull::kWait); });
  SpinUntil([&] { return queue_.Stats().blocked == 1; });
  EXPECT_EQ(queue_.taken(), 1U);
  EXPECT_EQ(Take(), 1);
  queue_.PublishProgress();
  producer.join();
  EXPECT_EQ(outcome, Outcome::kTaken);
  EXPECT_EQ(queue_.taken(), 2U);
}

TEST_F(BoundedQueueTest, WaitingProducerIsReleasedByMoreCapacity) {
  Push(1, 1000);
  Outcome outcome = Outcome::kFull;
  std::thread producer([&] { outcome = TryReserve(500, WhenFull::kWait); });
  SpinUntil([&] { return queue_.Stats().blocked == 1; });
  queue_.SetCapacity(2000);
  producer.join();
  EXPECT_EQ(outcome, Outcome::kTaken);
}

TEST_F(BoundedQueueTest, CloseReleasesWaitingProducersAndSaysHowMany) {
  Push(1, 1000);
  Outcome outcomes[3] = {Outcome::kTaken, Outcome::kTaken, Outcome::kTaken};
  std::vector<std::thread> producers;
  for (Outcome& outcome : outcomes) {
    producers.emplace_back([&] { outcome = TryReserve(500, WhenFull::kWait); });
  }
  SpinUntil([&] { return queue_.Stats().blocked == 3; });
  EXPECT_EQ(queue_.Close(), 3);
  for (std::thread& producer : producers) producer.join();
  for (const Outcome outcome : outcomes) EXPECT_EQ(outcome, Outcome::kClosed);
  EXPECT_EQ(queue_.taken(), 1U);
}

TEST_F(BoundedQueueTest, WaitingProducerWakesTheConsumer) {
  Push(1, 1000);
  std::thread producer([&] { EXPECT_EQ(TryReserve(500, WhenFull::kWait), Outcome::kTaken); });
  wakeup_.TimedWait(std::chrono::hours(1));  // returns because the producer needs room
  EXPECT_EQ(Take(), 1);
  queue_.PublishProgress();
  producer.join();
}

TEST_F(BoundedQueueTest, NapEndsWhenAQuarterOfTheCapacityWaits) {
  std::thread consumer([&] { wakeup_.TimedWait(std::chrono::hours(1)); });
  SpinUntil([&] { return wakeup_.rest() == Rest::kTimedWait; });
  Push(1, kCapacity / 4);
  EXPECT_EQ(wakeup_.rest(), Rest::kTimedWait);
  Push(2, 1);
  consumer.join();
}

TEST_F(BoundedQueueTest, RecordForWhichThereIsNoRoomEndsANap) {
  Push(1, kCapacity);
  std::thread consumer([&] { wakeup_.TimedWait(std::chrono::hours(1)); });
  SpinUntil([&] { return wakeup_.rest() == Rest::kTimedWait; });
  EXPECT_EQ(TryReserve(1), Outcome::kFull);
  consumer.join();
}

TEST_F(BoundedQueueTest, WhatWasGivenBackDoesNotEndANap) {
  for (int i = 0; i < 20; ++i) {
    Push(i, kCapacity / 5);
    EXPECT_EQ(Take(), i);
    queue_.PublishProgress();
  }
  std::thread consumer([&] { wakeup_.TimedWait(std::chrono::hours(1)); });
  SpinUntil([&] { return wakeup_.rest() == Rest::kTimedWait; });
  Push(1, kCapacity / 5);
  EXPECT_EQ(wakeup_.rest(), Rest::kTimedWait);
  wakeup_.Interrupt();
  consumer.join();
}

TEST_F(BoundedQueueTest, RecordsRollOverIntoFurtherChunks) {
  constexpr size_t kBytes = kSmall + 1000;
  queue_.SetCapacity(1 << 20);
  for (int64_t round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) {
      RecordHeader* record = Reserve(1, WhenFull::kGiveUp, kBytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(record) % alignof(RecordHeader), 0U);
      record->run_id = i;
      std::memset(reinterpret_cast<char*>(record + 1), i, 1000);
      queue_.Commit(record);
    }
    for (int i = 0; i < 200; ++i) {
      RecordHeader* record = queue_.Peek();
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(record->run_id, i);
      const auto* bytes = reinterpret_cast<const unsigned char*>(record + 1);
      EXPECT_EQ(bytes[0], i);
      EXPECT_EQ(bytes[999], i);
      queue_.Pop(record);
    }
    queue_.PublishProgress();
  }
}

TEST_F(BoundedQueueTest, RecordLargerThanAChunkHasOneOfItsOwn) {
  constexpr size_t kHuge = 300 << 10;
  Push(1);
  RecordHeader* huge = Reserve(1, WhenFull::kGiveUp, kHuge);
  std::memset(reinterpret_cast<char*>(huge + 1), 1, kHuge - sizeof(RecordHeader));  // ASan finds an overrun
  huge->run_id = 2;
  queue_.Commit(huge);
  Push(3);
  for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(Take(), i);
  EXPECT_EQ(Take(), -1);
}

TEST_F(BoundedQueueTest, GivingUpCountsValuesAndFreesTheirBlocks) {
  const int64_t blocks = LiveCount(LiveKind::kBlock);
  constexpr size_t kWithOneBuffer = kSmall + sizeof(callout_buffer) + sizeof(void*);
  for (int i = 0; i < 2; ++i) {
    RecordHeader* record = Reserve(1, WhenFull::kGiveUp, kWithOneBuffer);
    record->num_buffers = 1;
    record->blocks()[0] = AllocateBlock(10'000);
    queue_.Commit(record);
  }
  RecordHeader* retire = nullptr;
  ASSERT_EQ(queue_.Reserve(RecordKind::kRetireSite, kSmall, 0, WhenFull::kExceed, &retire), Outcome::kTaken);
  queue_.Commit(retire);
  EXPECT_EQ(queue_.CountValues(), 2U);
  EXPECT_EQ(LiveCount(LiveKind::kBlock), blocks);
  EXPECT_EQ(queue_.Peek(), nullptr);
}

TEST_F(BoundedQueueTest, DestructionFreesTheBlocksOfWhatIsLeft) {
  const int64_t blocks = LiveCount(LiveKind::kBlock);
  {
    BoundedQueue queue(kCapacity, wakeup_);
    RecordHeader* record = nullptr;
    constexpr size_t kWithOneBuffer = kSmall + sizeof(callout_buffer) + sizeof(void*);
    ASSERT_EQ(queue.Reserve(RecordKind::kValue, kWithOneBuffer, 1, WhenFull::kGiveUp, &record), Outcome::kTaken);
    record->num_buffers = 1;
    record->blocks()[0] = AllocateBlock(10'000);
    queue.Commit(record);
  }
  EXPECT_EQ(LiveCount(LiveKind::kBlock), blocks);
}

TEST_F(BoundedQueueTest, ManyProducersKeepTheirOrderAndLoseNothing) {
  constexpr int kProducers = 4;
  constexpr int64_t kEach = 3000;
  constexpr size_t kBytes = kSmall + 96;  // often crosses chunks
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int64_t i = 0; i < kEach; ++i) {
        RecordHeader* record = Reserve(10, WhenFull::kWait, kBytes);
        record->device_ordinal = p;
        record->run_id = i;
        queue_.Commit(record);
      }
    });
  }
  int64_t next[kProducers] = {};
  uint64_t tickets = 0;
  while (tickets < kProducers * kEach) {
    RecordHeader* record = queue_.Peek();
    if (record == nullptr) {
      queue_.PublishProgress();
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(record->ticket, ++tickets);
    EXPECT_EQ(record->run_id, next[record->device_ordinal]++);
    queue_.Pop(record);
    if (tickets % 7 == 0) queue_.PublishProgress();
  }
  queue_.PublishProgress();
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(queue_.delivered(), tickets);
  EXPECT_EQ(queue_.Stats().pending_bytes, 0U);
  EXPECT_LE(queue_.Stats().high_water_bytes, kCapacity);
}

}  // namespace
}  // namespace callout::internal
