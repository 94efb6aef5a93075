// SPDX-License-Identifier: Apache-2.0
//
// How Delivery treats a full queue and a shutdown, with the smallest queue and records of more than half of its size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/callbacks/call_statistics.h"
#include "core/delivery/delivery.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FullQueueTest : public LiveCountTest {
 protected:
  FullQueueTest() {
    ResetStats();
    EXPECT_THAT(delivery_.Configure({.queue_bytes = kMinQueueBytes}), IsOk());
    view_ = large_.view();
  }
  Status PushLarge(TapSite& site) { return delivery_.Push(site, {.buffers = {&view_, 1}}); }
  uint64_t Blocked() const { return delivery_.QueueStatistics()[0].stats.blocked; }
  void Drain() { ASSERT_THAT(delivery_.Drain(kForever), IsEmpty()); }

  // Fills the queue of device 0 with one record, which is being delivered until `blocking_` is opened.
  void Fill() {
    ASSERT_THAT(PushLarge(*blocking_site_), IsOk());
    blocking_->WaitUntilEntered(1);
  }

  TestBuffer large_ = TestBuffer::Zeros(DType::kUint8, {9'000'000});
  callout_buffer view_;
  Delivery delivery_;
  std::shared_ptr<BlockingCallback> blocking_ = std::make_shared<BlockingCallback>("blocking");
  std::unique_ptr<TapSite> blocking_site_ = MakeSite(blocking_);
};

TEST_F(FullQueueTest, DropNewestDropsAndCounts) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.drops");
  const auto site = MakeSite(callback, {.policy = OverflowPolicy::kDropNewest});
  Fill();
  EXPECT_THAT(PushLarge(*site), IsOk());
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  blocking_->Open();
  Drain();
  EXPECT_EQ(callback->stats().calls(), 0U);
  EXPECT_THAT(PushLarge(*site), IsOk());
  Drain();
  EXPECT_EQ(callback->stats().calls(), 1U);
}

/// Inspects each record, and sends it.
class InspectingCallback final : public Callback, public Inspector {
 public:
  using Callback::Callback;
  Worker worker() const override { return Worker::kNative; }
  Status Call(const callout_call&) override { return OkStatus(); }
  Status Deliver(const Record& record) override { return delivered.push_back(record.skipped), OkStatus(); }
  Inspector* inspector() override { return this; }
  Result<Send> Inspect(const Record& record) override { return inspected.push_back(record.skipped), Send::kRecord; }

  std::vector<uint32_t> inspected;
  std::vector<uint32_t> delivered;
};

// A sender that keeps resources for a record releases them if the record is not queued.
TEST_F(FullQueueTest, SendersAreToldWhichRecordsAreQueued) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.told");
  const auto site = MakeSite(callback, {.every = 2, .policy = OverflowPolicy::kDropNewest});
  const auto is_queued = [&] {
    bool queued = false;
    EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view_, 1}, .queued = &queued}), IsOk());
    return queued;
  };
  EXPECT_TRUE(is_queued());
  EXPECT_FALSE(is_queued());  // left out
  Drain();
  Fill();
  EXPECT_FALSE(is_queued());  // dropped
  blocking_->Open();
  Drain();
  EXPECT_EQ(callback->stats().calls(), 1U);
}

// An inspector counts steps by itself, so a record that it has seen must not count as left out.
TEST_F(FullQueueTest, InspectorSawTheRecordsThatAreDropped) {
  const auto callback = std::make_shared<InspectingCallback>("FullQueueTest.inspects");
  const auto site = MakeSite(callback, {.every = 2, .policy = OverflowPolicy::kDropNewest});
  Fill();
  for (int i = 0; i < 4; ++i) EXPECT_THAT(PushLarge(*site), IsOk());
  EXPECT_EQ(callback->stats().drops.load(), 2U);
  blocking_->Open();
  Drain();
  EXPECT_THAT(PushLarge(*site), IsOk());
  Drain();
  EXPECT_THAT(callback->inspected, ElementsAre(0, 1, 1));
  EXPECT_THAT(callback->delivered, ElementsAre(0));
}

// Most inspections are not timed; those that are timed count for the others.
TEST_F(FullQueueTest, EachLookOfAnInspectorIsCounted) {
  const auto callback = std::make_shared<InspectingCallback>("FullQueueTest.counts");
  const auto site = MakeSite(callback, {});
  TestBuffer small = TestBuffer::Zeros(DType::kUint8, {10});
  const callout_buffer view = small.view();
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view, 1}}), IsOk());
  Drain();
  EXPECT_EQ(callback->inspected.size(), 1000U);
  EXPECT_EQ(callback->stats().calls(), 2000U);  // inspections and deliveries
  EXPECT_EQ(callback->stats().bytes(), 20'000U);
  EXPECT_GT(callback->stats().host_ticks.load(), 0U);
}

TEST_F(FullQueueTest, FailFailsTheProgramAndSaysWhatIsFull) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.fails");
  const auto site = MakeSite(callback, {.policy = OverflowPolicy::kFail});
  Fill();
  const Status status = PushLarge(*site);
  EXPECT_THAT(status,
              StatusIs(StatusCode::kResourceExhausted,
                       "the tap queue is full and the tap was made with on_full=\"fail\": no room for the 9000"));
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted,
                               " bytes of its record. Queues: native device 0: 1 records, 9000"));
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted, " of 16000000 bytes"));
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  blocking_->Open();
  Drain();
}

TEST_F(FullQueueTest, BlockWaitsForRoom) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.blocks");
  const auto site = MakeSite(callback);
  Fill();
  std::thread program([&] { EXPECT_THAT(PushLarge(*site), IsOk()); });
  SpinUntil([&] { return Blocked() == 1; });
  EXPECT_EQ(delivery_.QueueStatistics()[0].stats.records, 1U);
  blocking_->Open();
  program.join();
  Drain();
  EXPECT_EQ(callback->stats().calls(), 1U);
  EXPECT_EQ(callback->stats().drops.load(), 0U);
}

TEST_F(FullQueueTest, DeliveryThreadNeverWaitsForItself) {
  const auto inner = std::make_shared<FakeCallback>("FullQueueTest.inner");
  const auto inner_site = MakeSite(inner);
  const auto outer = std::make_shared<FakeCallback>("FullQueueTest.outer");
  outer->on_deliver = [&](const Record&) {
    for (int i = 0; i < 3; ++i) EXPECT_THAT(PushLarge(*inner_site), IsOk());
    return OkStatus();
  };
  const auto outer_site = MakeSite(outer);
  EXPECT_THAT(PushLarge(*outer_site), IsOk());
  // The barrier waits for records pushed before it: the first one for the outer record, the second one for the inner
  // ones.
  Drain();
  Drain();
  EXPECT_EQ(inner->stats().calls(), 3U);
  EXPECT_EQ(inner->stats().drops.load(), 0U);
}

TEST_F(FullQueueTest, EachDeviceHasRoomOfItsOwn) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.other");
  const auto site = MakeSite(callback, {.policy = OverflowPolicy::kFail});
  Fill();
  EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view_, 1}, .device_ordinal = 1}), IsOk());
  blocking_->Open();
  Drain();
}

TEST_F(FullQueueTest, ShutdownCountsWhatIsQueuedAndWhoWaits) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.waits");
  const auto site = MakeSite(callback);
  TestBuffer small = TestBuffer::Scalar(1);
  const callout_buffer small_view = small.view();
  Fill();
  for (int i = 0; i < 3; ++i) ASSERT_THAT(delivery_.Push(*site, {.buffers = {&small_view, 1}}), IsOk());
  std::thread program([&] { EXPECT_THAT(PushLarge(*site), IsOk()); });
  SpinUntil([&] { return Blocked() == 1; });
  // One record is inside its callback, three are queued, one waits for room.
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 5U);
  program.join();
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  EXPECT_EQ(callback->stats().calls(), 0U);
  blocking_->Open();
  SpinUntil([&] { return delivery_.RunningThreads() == 0; });
}

// A closed gate ends the worker's thread and leaves the records in their queue.
TEST_F(FullQueueTest, ShutdownCountsAndFreesWhatNobodyDelivered) {
  delivery_.SetGate(Worker::kNative, {.enter = [] { return false; }});
  const int64_t blocks = LiveCount(LiveKind::kBlock);
  TestBuffer small = TestBuffer::Scalar(1);
  const callout_buffer small_view = small.view();
  ASSERT_THAT(PushLarge(*blocking_site_), IsOk());
  ASSERT_THAT(delivery_.Push(*blocking_site_, {.buffers = {&small_view, 1}}), IsOk());
  ASSERT_THAT(delivery_.Push(*blocking_site_, {.buffers = {&view_, 1}, .device_ordinal = 1}), IsOk());
  EXPECT_EQ(LiveCount(LiveKind::kBlock), blocks + 2);
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 3U);
  EXPECT_EQ(LiveCount(LiveKind::kBlock), blocks);
  EXPECT_EQ(delivery_.RunningThreads(), 0);
  EXPECT_EQ(blocking_->entered(), 0);
}

TEST_F(FullQueueTest, BarrierAfterShutdownDoesNotWait) {
  delivery_.SetGate(Worker::kNative, {.enter = [] { return false; }});
  ASSERT_THAT(PushLarge(*blocking_site_), IsOk());
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 1U);
  Drain();  // would hang if a barrier waited after Shutdown
}

TEST_F(FullQueueTest, ShutdownDeliversWhatItCan) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.all");
  const auto site = MakeSite(callback);
  for (int i = 0; i < 3; ++i) ASSERT_THAT(PushLarge(*site), IsOk());
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
  EXPECT_EQ(callback->stats().calls(), 3U);
  EXPECT_EQ(delivery_.RunningThreads(), 0);
}

TEST_F(FullQueueTest, PushAfterShutdownIsCountedNotTaken) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.late");
  const auto site = MakeSite(callback);
  ASSERT_THAT(PushLarge(*site), IsOk());
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
  EXPECT_THAT(PushLarge(*site), IsOk());
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  EXPECT_EQ(delivery_.Shutdown(kForever), 1U);
}

// The sender counts the record, since it still has it. If the queue counted too, a record would count twice.
TEST_F(FullQueueTest, AfterShutdownARecordThatComesAgainIsLeftToItsSender) {
  const auto callback = std::make_shared<FakeCallback>("FullQueueTest.held");
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
  for (const auto policy : {OverflowPolicy::kBlock, OverflowPolicy::kDropNewest, OverflowPolicy::kFail}) {
    const auto site = MakeSite(callback, {.policy = policy});
    const Status status = delivery_.Enqueue(*site, {.buffers = {&view_, 1}, .patience = Patience::kComesAgain});
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(callback->stats().drops.load(), 0U);
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
}

TEST_F(FullQueueTest, SiteRetiredAfterShutdownIsLeftAlone) {
  const int64_t sites = LiveCount(LiveKind::kSite);
  (void)delivery_.Shutdown(kForever);
  auto site = MakeSite(std::make_shared<FakeCallback>("FullQueueTest.leaks"));
  const std::unique_ptr<TapSite> still_mine(site.get());
  delivery_.Retire(std::move(site));
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites + 1);
}

}  // namespace
}  // namespace callout::internal
