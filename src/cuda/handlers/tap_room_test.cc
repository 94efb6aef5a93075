// SPDX-License-Identifier: Apache-2.0
//
// Tests of taps on CUDA without room: in the device's ring, or in the queue after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "callout/queue_policy.h"
#include "testing/cuda_tap_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kLarge = 3 << 20;  // Two records of this size fit in a ring.

class CudaTapRoomTest : public CudaTapTest {
 protected:
  void SetUp() override {
    CudaTapTest::SetUp();
    blocking_ = std::make_shared<BlockingCallback>("test.blocking");
  }
  void TearDown() override {
    filler_.reset();
    blocking_.reset();
    CudaTapTest::TearDown();
  }

  FrameBuilder LargeFrame(const std::string& name, OverflowPolicy policy, size_t bytes = kLarge, uint8_t value = 0) {
    FrameBuilder frame = Frame(name);
    frame.Int64Attr("on_full", static_cast<int64_t>(policy)).Arg(BytesOnDevice(bytes, value));
    return frame;
  }

  /// Puts two large records on their way into the ring of the native worker, and holds the device until release().
  void FillRing() {
    filler_ = Bind("test.filler");
    FrameBuilder frame = LargeFrame("test.filler", OverflowPolicy::kBlock);
    const auto site = NewTap(frame);
    fake()->hold();
    for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  }

  /// Makes the frame of a tap with three rows, whose bytes are 0, 1 and 2, and which are together as large as a record
  /// of LargeFrame.
  FrameBuilder LargeRows(OverflowPolicy policy) {
    std::vector<uint8_t> bytes(kLarge, 0);
    for (size_t i = 0; i < kLarge; ++i) bytes[i] = static_cast<uint8_t>(i / (kLarge / 3));
    FrameBuilder frame = Frame();
    frame.Int64Attr("rows", 1).Int64Attr("every", 2).Int64Attr("on_full", static_cast<int64_t>(policy));
    frame.Arg(OnDevice<uint8_t>({3, kLarge / 3}, bytes)).Arg(OnDevice<uint32_t>({}, {3}));
    return frame;
  }

  /// Fills the native queue with one record, whose delivery blocks until `blocking_` is opened.
  void FillQueue(size_t bytes = 15 << 20) {
    ASSERT_THAT(Delivery::Get().Configure({.queue_bytes = kMinQueueBytes}), IsOk());
    EXPECT_EQ(Registry::Get().Bind("test.blocking", blocking_), "py:test.blocking");
    FrameBuilder frame = LargeFrame("test.blocking", OverflowPolicy::kBlock, bytes);
    ASSERT_THAT(NewTap(frame)->Execute(frame), IsOk());
    blocking_->WaitUntilEntered(1);
  }

  /// Fills the native queue, and lets two records arrive that it has no room for.
  void FillQueueAndRing() {
    FillQueue();
    FillRing();
    fake()->release();
    RunStream();
  }

  /// Runs a tap that finds a full ring and an empty queue.
  void RunAheadOfTheDevice(OverflowPolicy policy) {
    const auto callback = Bind();
    FrameBuilder frame = LargeFrame("test.tap", policy);
    FillRing();
    const auto site = NewTap(frame);
    std::thread program([&] { EXPECT_THAT(site->Execute(frame), IsOk()); });
    SpinUntil([&] { return UnderWay().blocked > 0 || callback->stats().drops.load() > 0; });
    fake()->release();
    program.join();
    Barrier();
    EXPECT_EQ(callback->stats().calls(), 1U);
    EXPECT_EQ(callback->stats().drops.load(), 0U);
  }

  static void WaitUntilBlocked() {
    SpinUntil([] { return UnderWay().blocked > 0; });
  }

  /// Waits until everything has arrived.
  void RunStream() { EXPECT_THAT(Synchronize(device(), stream()), IsOk()); }

  std::shared_ptr<FakeCallback> filler_;
  std::shared_ptr<BlockingCallback> blocking_;
};

TEST_F(CudaTapRoomTest, FullRingHoldsTheProgramUp) {
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kBlock);
  FillRing();
  const auto site = NewTap(frame);
  std::thread program([&] { EXPECT_THAT(site->Execute(frame), IsOk()); });
  WaitUntilBlocked();
  EXPECT_EQ(UnderWay().records, 2U);
  fake()->release();
  program.join();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 1U);
  EXPECT_EQ(filler_->stats().calls(), 2U);
}

// The queue is empty, so there is no reason to lose a record or to fail.
TEST_F(CudaTapRoomTest, DropNewestLosesNothingBecauseTheProgramIsFarAheadOfTheDevice) {
  RunAheadOfTheDevice(OverflowPolicy::kDropNewest);
}

TEST_F(CudaTapRoomTest, FailDoesNotFailBecauseTheProgramIsFarAheadOfTheDevice) {
  RunAheadOfTheDevice(OverflowPolicy::kFail);
}

TEST_F(CudaTapRoomTest, RingThatIsFullBecauseTheQueueIsFullDropsAndCounts) {
  FillQueueAndRing();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kDropNewest);
  const auto site = NewTap(frame);
  const int copies = fake()->calls("cuMemcpyDtoHAsync");
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync"), copies);
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  blocking_->Open();
  Barrier();
  uint32_t skipped = 0;
  callback->on_deliver = [&](const Record& record) { return skipped = record.skipped, OkStatus(); };
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_EQ(skipped, 1U);
}

TEST_F(CudaTapRoomTest, RingThatIsFullBecauseTheQueueIsFullFailsTheProgramThatWantsThat) {
  FillQueueAndRing();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kFail);
  EXPECT_THAT(NewTap(frame)->Execute(frame),
              StatusIs(StatusCode::kResourceExhausted,
                       "'test.tap' failed on device 0: the tap was made with on_full=\"fail\", and there is no pinned "
                       "memory for the 3145856 bytes of its record: 2 records have 6291712 of 8388608 bytes, and wait "
                       "for a queue that is full. Queues: native device 0: 1 records, 157"));
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  blocking_->Open();
}

// A program that waits for the device stops waiting when the queue turns out to be full.
TEST_F(CudaTapRoomTest, QueueThatTurnsOutToBeFullEndsTheWaitForTheDevice) {
  FillQueue();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kDropNewest);
  const auto site = NewTap(frame);
  FillRing();
  std::thread program([&] { EXPECT_THAT(site->Execute(frame), IsOk()); });
  WaitUntilBlocked();
  fake()->release();
  program.join();
  EXPECT_EQ(callback->stats().drops.load(), 1U);
  blocking_->Open();
}

TEST_F(CudaTapRoomTest, PinnedMemoryOfLargeRecordsIsBounded) {
  ASSERT_THAT(Delivery::Get().Configure({.queue_bytes = kMinQueueBytes}), IsOk());
  const auto callback = Bind();
  // This record is larger than the bound, and is taken because there is no other. The next record waits for the first.
  FrameBuilder larger = LargeFrame("test.tap", OverflowPolicy::kDropNewest, kMinQueueBytes + 1);
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kDropNewest, 5 << 20);
  FrameBuilder small = LargeFrame("test.tap", OverflowPolicy::kBlock, 8);  // Fits in the ring.
  fake()->hold();
  ASSERT_THAT(NewTap(larger)->Execute(larger), IsOk());
  const auto site = NewTap(frame);
  std::thread program([&] { EXPECT_THAT(site->Execute(frame), IsOk()); });
  WaitUntilBlocked();
  ASSERT_THAT(NewTap(small)->Execute(small), IsOk());
  EXPECT_EQ(UnderWay().records, 2U);
  fake()->release();
  program.join();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 3U);
}

// A tap's function that runs a program with taps cannot wait for itself.
TEST_F(CudaTapRoomTest, DeliveryThreadNeverWaitsForRoom) {
  const auto callback = Bind();
  const auto inner = Bind("test.inner");
  FrameBuilder frame = LargeFrame("test.inner", OverflowPolicy::kBlock);
  const auto site = NewTap(frame);
  callback->on_deliver = [&](const Record&) {
    fake()->hold();
    for (int i = 0; i < 4; ++i) CALLOUT_RETURN_IF_ERROR(site->Execute(frame));
    fake()->release();
    return OkStatus();
  };
  FrameBuilder outer = Frame();
  outer.Arg(OnDevice({}, {1.0F}));
  ASSERT_THAT(NewTap(outer)->Execute(outer), IsOk());
  SpinUntil([&] { return inner->stats().calls() == 4; });
  EXPECT_EQ(UnderWay().blocked, 0U);
}

TEST_F(CudaTapRoomTest, FullQueueFillsTheRingAndThatHoldsTheProgramUp) {
  FillQueue();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kBlock);
  const auto site = NewTap(frame);
  std::thread program([&] {
    for (int i = 0; i < 5; ++i) EXPECT_THAT(site->Execute(frame), IsOk());
  });
  WaitUntilBlocked();
  RunStream();  // Everything has arrived, and nothing fits in the queue.
  EXPECT_EQ(UnderWay().records, 2U);
  blocking_->Open();
  program.join();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 5U);
  EXPECT_EQ(callback->stats().drops.load(), 0U);
}

TEST_F(CudaTapRoomTest, FullQueueDropsWhatArrives) {
  FillQueue();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kDropNewest);
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  SpinUntil([&] { return callback->stats().drops.load() == 1; });
  blocking_->Open();
  Barrier();
  EXPECT_EQ(callback->stats().calls(), 0U);
}

TEST_F(CudaTapRoomTest, FullQueueDropsTheRowsThatArriveAndHaveTheirTurn) {
  FillQueue();
  const auto callback = Bind();
  std::vector<uint32_t> skipped;
  callback->on_deliver = [&](const Record& record) { return skipped.push_back(record.skipped), OkStatus(); };
  FrameBuilder frame = LargeRows(OverflowPolicy::kDropNewest);
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  SpinUntil([&] { return callback->stats().drops.load() == 2; });
  EXPECT_EQ(callback->stats().skips.load(), 1U);
  blocking_->Open();
  Barrier();
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_THAT(skipped, ElementsAre(4)) << "three rows of the first call, and one of the second";
}

// The drainer comes again until the queue has room, and must ask the throttle once about each row.
TEST_F(CudaTapRoomTest, RowsThatWaitForAFullQueueKeepTheirTurn) {
  FillQueue(kMinQueueBytes);
  const auto callback = Bind();
  std::vector<std::pair<int, uint32_t>> seen;
  callback->on_deliver = [&](const Record& record) {
    seen.emplace_back(*static_cast<const uint8_t*>(record.buffers[0].data), record.skipped);
    return OkStatus();
  };
  FrameBuilder frame = LargeRows(OverflowPolicy::kBlock);
  const auto site = NewTap(frame);
  for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  const auto dropped = Bind("test.dropped");
  FrameBuilder next = LargeFrame("test.dropped", OverflowPolicy::kDropNewest);
  ASSERT_THAT(NewTap(next)->Execute(next), IsOk());  // Returns when the drainer has found that the queue is full.
  EXPECT_EQ(dropped->stats().drops.load(), 1U);
  EXPECT_EQ(UnderWay().records, 2U);
  EXPECT_EQ(callback->stats().skips.load(), 0U);
  blocking_->Open();
  Barrier();
  EXPECT_THAT(seen, ElementsAre(std::pair(0, 0U), std::pair(2, 1U), std::pair(1, 1U)));
  EXPECT_EQ(callback->stats().skips.load(), 3U);
  EXPECT_EQ(callback->stats().drops.load(), 0U);
}

TEST_F(CudaTapRoomTest, FullQueueFailsTheNextTapOfTheDevice) {
  FillQueue();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kFail);
  const auto site = NewTap(frame);
  ASSERT_THAT(site->Execute(frame), IsOk());
  SpinUntil([&] { return UnderWay().records == 0; });
  const auto other = Bind("test.other");
  FrameBuilder next = LargeFrame("test.other", OverflowPolicy::kBlock, 8);
  const auto next_site = NewTap(next);
  EXPECT_THAT(next_site->Execute(next),
              StatusIs(StatusCode::kResourceExhausted, "'test.tap' failed on device 0: the tap queue is full"));
  blocking_->Open();
  EXPECT_THAT(next_site->Execute(next), IsOk()) << "once";
  Barrier();
  EXPECT_EQ(Delivery::Get().TakeErrors().count, 0U);
}

TEST_F(CudaTapRoomTest, FullQueueFailsTheBarrierIfNoTapFollows) {
  FillQueue();
  const auto callback = Bind();
  FrameBuilder frame = LargeFrame("test.tap", OverflowPolicy::kFail);
  ASSERT_THAT(NewTap(frame)->Execute(frame), IsOk());
  SpinUntil([&] { return UnderWay().records == 0; });
  blocking_->Open();
  Barrier();
  const DeliveryErrorReport report = Delivery::Get().TakeErrors();
  EXPECT_EQ(report.count, 1U);
  EXPECT_THAT(report.last.message(), HasSubstr("'test.tap' failed on device 0: the tap queue is full"));
}

TEST_F(CudaTapRoomTest, FullQueueOfOneWorkerHoldsUpNoOther) {
  FillQueue();
  const auto native = Bind("test.waits");
  FrameBuilder waits = LargeFrame("test.waits", OverflowPolicy::kBlock);
  ASSERT_THAT(NewTap(waits)->Execute(waits), IsOk());
  const auto python = Bind("test.python", Worker::kPython);
  FrameBuilder frame = LargeFrame("test.python", OverflowPolicy::kBlock);
  ASSERT_THAT(NewTap(frame)->Execute(frame), IsOk());
  SpinUntil([&] { return python->stats().calls() == 1; });
  EXPECT_EQ(native->stats().calls(), 0U);
  blocking_->Open();
}

}  // namespace
}  // namespace callout::internal
