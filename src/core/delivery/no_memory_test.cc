// SPDX-License-Identifier: Apache-2.0
//
// Values that do not fit in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "core/callbacks/call_statistics.h"
#include "core/delivery/delivery.h"
#include "core/profile/recorder.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kTooMany = (uint64_t{1} << 63) + 1;

class NoMemoryTest : public LiveCountTest {
 protected:
  NoMemoryTest() { ResetStats(); }

  // Pushes a value of two arrays, the second one with `bytes`.
  Status Push(TapSite& site, uint64_t bytes) {
    TestBuffer large(DType::kUint8, {10'000}, std::vector<uint8_t>(10'000, 3));
    callout_buffer views[] = {large.view(), large.view()};
    views[1].size_bytes = bytes;
    return delivery_.Push(site, {.buffers = views});
  }

  Delivery delivery_;
};

TEST_F(NoMemoryTest, TapWithoutMemoryIsAnErrorAndADropAndTheNextIsDelivered) {
  const auto callback = std::make_shared<FakeCallback>("large");
  std::vector<uint64_t> sizes;
  callback->on_deliver = [&](const Record& record) {
    return sizes.push_back(record.buffers[1].size_bytes), OkStatus();
  };
  const auto site = MakeSite(callback);
  for (const bool profiled : {false, true}) {
    EXPECT_THAT(Push(*site, 10'000), IsOk());
    EXPECT_THAT(Push(*site, kTooMany),
                StatusIs(StatusCode::kResourceExhausted, "out of memory: cannot allocate 9223372036854785809 bytes"));
    EXPECT_THAT(Push(*site, 10'000), IsOk());
    EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
    if (!profiled) (void)StartRecording(1000);
  }
  EXPECT_TRUE(StopRecording().ok());
  EXPECT_THAT(sizes, ElementsAre(10'000, 10'000, 10'000, 10'000));
  EXPECT_EQ(callback->stats().drops.load(), 2U);
  EXPECT_EQ(callback->stats().calls(), 4U);
}

// The count of skipped records must not be lost with the record, or the next record would have a wrong step.
TEST_F(NoMemoryTest, WhatWasLeftOutBeforeAValueThatIsLostIsKnownToTheNext) {
  const auto callback = std::make_shared<FakeCallback>("counts");
  std::vector<uint32_t> skipped;
  callback->on_deliver = [&](const Record& record) { return skipped.push_back(record.skipped), OkStatus(); };
  const auto site = MakeSite(callback, {.leaf_names = {"a", "b"}, .every = 3});
  for (const uint64_t bytes :
       {uint64_t{8}, uint64_t{8}, uint64_t{8}, kTooMany, uint64_t{8}, uint64_t{8}, uint64_t{8}}) {
    EXPECT_EQ(Push(*site, bytes).ok(), bytes == 8);
  }
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  EXPECT_THAT(skipped, ElementsAre(0, 5));
}

// The sender of a record from upstream says how many were left out before it, and each must count once.
TEST_F(NoMemoryTest, WhatWasLeftOutUpstreamBeforeAValueThatIsLostCountsOnce) {
  const auto callback = std::make_shared<FakeCallback>("counts");
  std::vector<uint32_t> skipped;
  callback->on_deliver = [&](const Record& record) { return skipped.push_back(record.skipped), OkStatus(); };
  const auto site = MakeSite(callback);
  TestBuffer large(DType::kUint8, {10}, std::vector<uint8_t>(10, 3));
  callout_buffer view = large.view();
  view.size_bytes = kTooMany;
  EXPECT_FALSE(delivery_.Push(*site, {.buffers = {&view, 1}, .skipped = 3}).ok());
  view.size_bytes = 10;
  EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view, 1}, .skipped = 0}), IsOk());
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  EXPECT_THAT(skipped, ElementsAre(4));
}

TEST_F(NoMemoryTest, RecordWithoutMemoryLeavesTheQueueAsItWas) {
  Wakeup wakeup;
  BoundedQueue queue(1000, wakeup);
  RecordHeader* record = nullptr;
  EXPECT_EQ(queue.Reserve(RecordKind::kValue, kTooMany, 1, BoundedQueue::WhenFull::kGiveUp, &record),
            BoundedQueue::Outcome::kNoMemory);
  EXPECT_EQ(queue.taken(), 0U);
  EXPECT_EQ(queue.Stats().records, 0U);
  EXPECT_EQ(queue.Stats().pending_bytes, 0U);
}

TEST_F(NoMemoryTest, ValueThatIsLostAtTheEndIsNotCountedTwice) {
  const auto callback = std::make_shared<FakeCallback>("lost");
  const auto site = MakeSite(callback);
  EXPECT_FALSE(Push(*site, kTooMany).ok());
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
}

TEST_F(NoMemoryTest, CallbackWithoutMemoryIsAFailureThatIsCounted) {
  const LogCapture log;
  const auto callback = std::make_shared<FakeCallback>("fails");
  callback->on_deliver = [](const Record&) -> Status { throw std::bad_alloc(); };
  const auto site = MakeSite(callback);
  EXPECT_THAT(Push(*site, 10'000), IsOk());
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  EXPECT_EQ(callback->stats().errors.load(), 1U);
  const Status failed = delivery_.TakeErrors().last;
  EXPECT_THAT(failed.message(), HasSubstr("callback 'fails' failed on device 0: out of memory"));
  EXPECT_EQ(failed.kind(), StatusKind::kMemory);
}

}  // namespace
}  // namespace callout::internal
