// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/delivery_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <utility>

#include "core/callbacks/call_statistics.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeliveryErrorsTest : public ::testing::Test {
 protected:
  void SetUp() override { ResetStats(); }

  LogCapture log_;
  DeliveryErrors errors_;
};

TEST_F(DeliveryErrorsTest, NothingFailed) {
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 0U);
  EXPECT_THAT(report.first, IsEmpty());
  EXPECT_THAT(report.last, IsOk());
}

TEST_F(DeliveryErrorsTest, KeepsCountFirstAndLast) {
  const FakeCallback callback("errors.keeps");
  for (int i = 0; i < 20; ++i) errors_.Add(callback, 1, InternalError("number " + std::to_string(i)));
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 20U);
  ASSERT_EQ(report.first.size(), 8U);
  EXPECT_EQ(report.first[0].message(), "callout: callback 'errors.keeps' failed on device 1: number 0");
  EXPECT_EQ(report.first[7].message(), "callout: callback 'errors.keeps' failed on device 1: number 7");
  EXPECT_EQ(report.last.message(), "callout: callback 'errors.keeps' failed on device 1: number 19");
  errors_.Add(callback, 1, Status(StatusCode::kInternal, "check failed", StatusKind::kCheck));
  EXPECT_EQ(errors_.Take().last.kind(), StatusKind::kCheck);
}

TEST_F(DeliveryErrorsTest, TakeForgets) {
  const FakeCallback callback("errors.takes");
  errors_.Add(callback, 0, InternalError("old"));
  (void)errors_.Take();
  errors_.Add(callback, 0, InternalError("new"));
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 1U);
  EXPECT_THAT(report.first, ElementsAre(StatusIs(StatusCode::kInternal, "new")));
  EXPECT_EQ(errors_.Take().count, 0U);
}

TEST_F(DeliveryErrorsTest, FirstErrorOfEachCallbackIsLogged) {
  const FakeCallback a("errors.a");
  const FakeCallback b("errors.b");
  errors_.Add(a, 0, InternalError("one"));
  errors_.Add(a, 0, InternalError("two"));
  errors_.Add(b, -1, InternalError("three"));
  EXPECT_THAT(log_.messages(), ElementsAre(HasSubstr("40 callout: callback 'errors.a' failed on device 0: one"),
                                           HasSubstr("40 callout: callback 'errors.b' failed: three")));
}

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMegabyte = 1 << 20;

// Pushes a record without buffers; `value` becomes its run id.
void PushTo(BoundedQueue& queue, TapSite& site, int64_t value, uint64_t charged = 1) {
  RecordHeader* record = nullptr;
  ASSERT_EQ(queue.Reserve(RecordKind::kValue, sizeof(RecordHeader), charged, BoundedQueue::WhenFull::kGiveUp, &record),
            BoundedQueue::Outcome::kTaken);
  record->site = &site;
  record->run_id = value;
  record->device_ordinal = 0;
  record->ticks = 0;
  queue.Commit(record);
}

class DeliveryThreadTest : public LiveCountTest {
 protected:
  DeliveryThreadTest() { ResetStats(); }

  void Push(TapSite& site, int64_t value, uint64_t charged = 1) { PushTo(queue_, site, value, charged); }
  void Barrier() { ASSERT_TRUE(thread_.WaitFor(queue_, queue_.taken(), kForever)); }

  // Returns a callback that collects the values of its records.
  static std::shared_ptr<FakeCallback> Collector(std::vector<int64_t>& values) {
    auto callback = std::make_shared<FakeCallback>("collector");
    callback->on_deliver = [&values](const Record& record) {
      values.push_back(record.run_id);
      return OkStatus();
    };
    return callback;
  }

  DeliveryErrors errors_;
  DeliveryThread thread_{"test", BatchGate{}, errors_};
  BoundedQueue& queue_ = *thread_.AddQueue(64 * kMegabyte);
};

TEST_F(DeliveryThreadTest, DeliversInOrder) {
  std::vector<int64_t> values;
  const auto site = MakeSite(Collector(values));
  for (int64_t i = 0; i < 1000; ++i) Push(*site, i);
  thread_.Start();
  Barrier();
  ASSERT_EQ(values.size(), 1000U);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i);
}

TEST_F(DeliveryThreadTest, DeliversWhatComesWhileItSleeps) {
  std::vector<int64_t> values;
  const auto site = MakeSite(Collector(values));
  thread_.Start();
  for (int64_t i = 0; i < 50; ++i) {
    Push(*site, i);
    Barrier();
    ASSERT_EQ(values.size(), static_cast<size_t>(i) + 1);
  }
}

TEST_F(DeliveryThreadTest, RecordSaysWhereItComesFrom) {
  const auto callback = std::make_shared<FakeCallback>("says");
  std::vector<uint64_t> sequences;
  std::string label;
  callback->on_deliver = [&](const Record& record) {
    sequences.push_back(record.sequence);
    label = record.site->label;
    return OkStatus();
  };
  const auto site = MakeSite(callback);
  Push(*site, 0);
  Push(*site, 0);
  thread_.Start();
  Barrier();
  EXPECT_THAT(sequences, ElementsAre(1, 2));
  EXPECT_EQ(label, "says");
}

TEST_F(DeliveryThreadTest, BarrierGivesUpAtItsDeadline) {
  const auto callback = std::make_shared<BlockingCallback>("blocks");
  const auto site = MakeSite(callback);
  Push(*site, 0);
  thread_.Start();
  callback->WaitUntilEntered(1);
  EXPECT_FALSE(thread_.WaitFor(queue_, 1, steady_clock::now()));
  callback->Open();
  Barrier();
}

// A batch may end after 256 records. The drain must not count the last of them as delivered before the flush.
TEST_F(DeliveryThreadTest, BarrierReturnsAfterTheFlush) {
  for (const int records : {1, 255, 256, 257, 512}) {
    const auto callback = std::make_shared<FakeCallback>("flushes");
    int delivered = 0;
    int flushed = 0;
    callback->on_deliver = [&](const Record&) { return ++delivered, OkStatus(); };
    callback->on_flush = [&] { return flushed = delivered, OkStatus(); };
    const auto site = MakeSite(callback);
    for (int i = 0; i < records; ++i) Push(*site, i);
    thread_.Start();
    Barrier();
    EXPECT_EQ(flushed, records);
    ASSERT_TRUE(thread_.Stop(kForever));
  }
}

// Each batch writes each file, so a batch takes all records. A batch also ends after two milliseconds, so one of
// several attempts has to be one long batch.
TEST_F(DeliveryThreadTest, WhatIsThereIsOneBatchWhileNobodyWaits) {
  constexpr int kRecords = 1000, kTries = 1000;
  int most = 0;
  for (int i = 0; i < kTries && most <= 512; ++i) {
    const auto callback = std::make_shared<FakeCallback>("flushes");
    std::atomic<int> delivered = 0;
    int flushed = 0;
    callback->on_deliver = [&](const Record&) { return ++delivered, OkStatus(); };
    callback->on_flush = [&] {
      most = std::max(most, delivered.load() - std::exchange(flushed, delivered.load()));
      return OkStatus();
    };
    const auto site = MakeSite(callback);
    for (int record = 0; record < kRecords; ++record) Push(*site, record);
    thread_.Start();
    SpinUntil([&] { return delivered.load() == kRecords; });  // a barrier would end the batch
    Barrier();
    ASSERT_TRUE(thread_.Stop(kForever));
  }
  EXPECT_GT(most, 512);
}

TEST_F(DeliveryThreadTest, LargeRecordsGiveTheirRoomBackInsideABatchButAreNotDelivered) {
  std::vector<int64_t> values;
  const auto large = MakeSite(Collector(values));
  const auto blocking = std::make_shared<BlockingCallback>("blocks");
  const auto last = MakeSite(blocking);
  Push(*large, 1, 2 * kMegabyte);
  Push(*last, 2, 1);
  thread_.Start();
  blocking->WaitUntilEntered(1);
  EXPECT_EQ(queue_.Stats().pending_bytes, 1U);
  EXPECT_EQ(queue_.delivered(), 0U) << "a barrier would return before the flush";
  blocking->Open();
  Barrier();
}

TEST_F(DeliveryThreadTest, StopAndRestartLoseNothing) {
  std::vector<int64_t> values;
  const auto site = MakeSite(Collector(values));
  EXPECT_FALSE(thread_.running());
  thread_.Start();
  EXPECT_TRUE(thread_.running());
  Push(*site, 1);
  Barrier();
  EXPECT_TRUE(thread_.Stop(kForever));
  EXPECT_FALSE(thread_.running());
  Push(*site, 2);
  EXPECT_EQ(values.size(), 1U);
  thread_.Start();
  thread_.Start();  // the second call does nothing
  Barrier();
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_TRUE(thread_.Stop(kForever));
  EXPECT_TRUE(thread_.Stop(kForever));
}

TEST_F(DeliveryThreadTest, StoppedThreadIsNotStartedByARecordNorParkedAgain) {
  std::vector<int64_t> values;
  const auto site = MakeSite(Collector(values));
  thread_.Start();
  thread_.Park();
  EXPECT_TRUE(thread_.Stop(kForever));
  Push(*site, 1);
  thread_.StartIfParked();
  EXPECT_FALSE(thread_.running());
  thread_.Park();
  thread_.StartIfParked();
  EXPECT_FALSE(thread_.running());
  thread_.Start();
  Barrier();
  EXPECT_THAT(values, ElementsAre(1));
}

TEST_F(DeliveryThreadTest, StopGivesUpOnACallbackThatDoesNotReturn) {
  const auto callback = std::make_shared<BlockingCallback>("blocks");
  const auto site = MakeSite(callback);
  Push(*site, 0);
  Push(*site, 1);
  thread_.Start();
  callback->WaitUntilEntered(1);
  EXPECT_FALSE(thread_.Stop(steady_clock::now()));
  EXPECT_TRUE(thread_.running());
  callback->Open();
  EXPECT_TRUE(thread_.Stop(kForever));
  EXPECT_EQ(callback->entered(), 1) << "it ends after what it is doing now";
  EXPECT_EQ(queue_.delivered(), 1U);
}

TEST_F(DeliveryThreadTest, FailuresAreCountedLoggedOnceAndTaken) {
  const LogCapture log;
  const auto callback = std::make_shared<FakeCallback>("DeliveryThreadTest.fails");
  callback->on_deliver = [](const Record& record) -> Status {
    if (record.run_id == 1) throw std::runtime_error("std boom");
    if (record.run_id == 2) throw 42;
    if (record.run_id == 3) return Unavailable("not now");
    return OkStatus();
  };
  const auto site = MakeSite(callback);
  for (int64_t i = 0; i < 5; ++i) Push(*site, i);
  thread_.Start();
  Barrier();
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_EQ(report.count, 3U);
  EXPECT_THAT(report.first,
              ElementsAre(StatusIs(StatusCode::kInternal, "'DeliveryThreadTest.fails' failed on device 0: std boom"),
                          StatusIs(StatusCode::kInternal, "something that is not a std::exception"),
                          StatusIs(StatusCode::kUnavailable, "not now")));
  EXPECT_THAT(report.last.message(), HasSubstr("not now"));
  EXPECT_THAT(log.messages(), ElementsAre(HasSubstr("std boom")));
  EXPECT_EQ(callback->stats().calls(), 5U);
  EXPECT_EQ(callback->stats().errors.load(), 3U);
}

TEST_F(DeliveryThreadTest, FailingFlushIsAnErrorAndTheThreadLivesOn) {
  const LogCapture log;
  const auto callback = std::make_shared<FakeCallback>("DeliveryThreadTest.flush");
  const auto site = MakeSite(callback);
  callback->on_flush = [] { return InternalError("disk full"); };
  Push(*site, 1);
  thread_.Start();
  Barrier();
  ASSERT_TRUE(thread_.Stop(kForever));
  callback->on_flush = []() -> Status { throw 1; };
  Push(*site, 2);
  thread_.Start();
  Barrier();
  const DeliveryErrorReport report = errors_.Take();
  EXPECT_THAT(report.first,
              ElementsAre(StatusIs(StatusCode::kInternal, "callback 'DeliveryThreadTest.flush' failed: disk full"),
                          StatusIs(StatusCode::kInternal, "something that is not a std::exception")));
  EXPECT_TRUE(thread_.running());
}

TEST_F(DeliveryThreadTest, CallbacksRunOnADeliveryThread) {
  const auto callback = std::make_shared<FakeCallback>("where");
  bool inside = false;
  callback->on_deliver = [&](const Record&) { return inside = DeliveryThread::IsCurrent(), OkStatus(); };
  const auto site = MakeSite(callback);
  Push(*site, 0);
  thread_.Start();
  Barrier();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(DeliveryThread::IsCurrent());
}

TEST_F(DeliveryThreadTest, RetiredSiteIsDestroyedWhenItComesOut) {
  const int64_t sites = LiveCount(LiveKind::kSite);
  std::vector<int64_t> values;
  auto site = MakeSite(Collector(values));
  Push(*site, 1);
  site->retiring.store(1);
  RecordHeader* record = nullptr;
  ASSERT_EQ(queue_.Reserve(RecordKind::kRetireSite, sizeof(RecordHeader), 0, BoundedQueue::WhenFull::kExceed, &record),
            BoundedQueue::Outcome::kTaken);
  record->site = site.release();
  queue_.Commit(record);
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites + 1);
  thread_.Start();
  Barrier();
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites);
  EXPECT_THAT(values, ElementsAre(1));
}

// Under TSan this also checks the order of locks: the thread may be about to sleep when the queue is added.
TEST_F(DeliveryThreadTest, QueuesMayBeAddedWhileItRuns) {
  std::vector<int64_t> values;
  const auto site = MakeSite(Collector(values));
  thread_.Start();
  for (int64_t i = 0; i < 20; ++i) {
    BoundedQueue* const queue = thread_.AddQueue(kMegabyte);
    PushTo(*queue, *site, i);
    ASSERT_TRUE(thread_.WaitFor(*queue, 1, kForever));
  }
  EXPECT_EQ(values.size(), 20U);
}

TEST_F(DeliveryThreadTest, WaitersOnSeveralThreadsAllReturn) {
  const auto callback = std::make_shared<BlockingCallback>("blocks");
  const auto site = MakeSite(callback);
  Push(*site, 0);
  thread_.Start();
  callback->WaitUntilEntered(1);
  std::latch started(3);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      started.count_down();
      EXPECT_TRUE(thread_.WaitFor(queue_, 1, kForever));
    });
  }
  started.wait();
  callback->Open();
  for (std::thread& waiter : waiters) waiter.join();
}

std::atomic<bool> g_gate_open{true};
std::atomic<int> g_inside{0};
std::atomic<int> g_batches{0};

bool EnterGate() {
  if (!g_gate_open.load()) return false;
  g_inside.fetch_add(1);
  g_batches.fetch_add(1);
  return true;
}
void LeaveGate() { g_inside.fetch_sub(1); }

class GatedDeliveryThreadTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    g_gate_open = true;
    g_inside = 0;
    g_batches = 0;
  }

  DeliveryErrors errors_;
  DeliveryThread thread_{"gated", BatchGate{&EnterGate, &LeaveGate}, errors_};
  BoundedQueue& queue_ = *thread_.AddQueue(kMegabyte);
};

TEST_F(GatedDeliveryThreadTest, EverythingOfABatchRunsInsideTheGate) {
  const auto callback = std::make_shared<FakeCallback>("gated");
  std::vector<int> inside;
  callback->on_deliver = [&](const Record&) { return inside.push_back(g_inside.load()), OkStatus(); };
  callback->on_flush = [&] { return inside.push_back(10 + g_inside.load()), OkStatus(); };
  auto site = MakeSite(callback);
  PushTo(queue_, *site, 0);
  thread_.Start();
  ASSERT_TRUE(thread_.WaitFor(queue_, 1, kForever));
  EXPECT_THAT(inside, ElementsAre(1, 11));
  SpinUntil([] { return g_inside.load() == 0; });
  EXPECT_GE(g_batches.load(), 1);
}

TEST_F(GatedDeliveryThreadTest, GateThatRefusesEndsTheThreadAndKeepsTheRecords) {
  const auto callback = std::make_shared<BlockingCallback>("never");
  const auto site = MakeSite(callback);
  thread_.Start();
  g_gate_open = false;
  PushTo(queue_, *site, 0);
  SpinUntil([&] { return !thread_.running(); });
  EXPECT_EQ(callback->entered(), 0);
  EXPECT_EQ(queue_.delivered(), 0U);
  EXPECT_EQ(queue_.CountValues(), 1U);
}

TEST_F(GatedDeliveryThreadTest, ThreadMayBeStartedAgainOnceTheGateIsOpen) {
  std::vector<int64_t> values;
  const auto callback = std::make_shared<FakeCallback>("later");
  callback->on_deliver = [&](const Record& record) { return values.push_back(record.run_id), OkStatus(); };
  const auto site = MakeSite(callback);
  g_gate_open = false;
  PushTo(queue_, *site, 7);
  thread_.Start();
  SpinUntil([&] { return !thread_.running(); });
  g_gate_open = true;
  thread_.Start();
  ASSERT_TRUE(thread_.WaitFor(queue_, 1, kForever));
  EXPECT_THAT(values, ElementsAre(7));
}

}  // namespace
}  // namespace callout::internal
