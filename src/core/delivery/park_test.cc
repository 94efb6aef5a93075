// SPDX-License-Identifier: Apache-2.0
//
// Delivery threads that are parked and start again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <system_error>
#include <thread>

#include "core/delivery/delivery.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/no_threads.h"
#include "testing/spin.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class ParkTest : public LiveCountTest {
 protected:
  void Push(TapSite& site, int64_t value) {
    TestBuffer buffer = TestBuffer::Scalar(value);
    const callout_buffer view = buffer.view();
    EXPECT_TRUE(delivery_.Push(site, {.buffers = {&view, 1}}).ok());
  }

  Delivery delivery_;
};

TEST_F(ParkTest, ThreadsEndAndTheNextRecordStartsThem) {
  const auto callback = std::make_shared<FakeCallback>("parks");
  std::atomic<int> delivered{0};
  callback->on_deliver = [&](const Record&) { return ++delivered, OkStatus(); };
  const auto site = MakeSite(callback);
  Push(*site, 1);
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
  delivery_.Park();
  EXPECT_EQ(delivery_.RunningThreads(), 0);
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());  // nothing is queued, so nothing starts
  EXPECT_EQ(delivery_.RunningThreads(), 0);
  Push(*site, 2);
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
  EXPECT_EQ(delivered.load(), 2);
  EXPECT_EQ(delivery_.RunningThreads(), 1);
}

TEST_F(ParkTest, BeforeTheFirstRecordThereIsNothingToPark) {
  delivery_.Park();
  EXPECT_EQ(delivery_.RunningThreads(), 0);
}

// Every record arrives, whichever thread is first at each of the places where both can meet.
TEST_F(ParkTest, RecordsThatComeMeanwhileAreDelivered) {
  constexpr int kRecords = 20000;
  const auto callback = std::make_shared<FakeCallback>("parks.meanwhile");
  std::atomic<int> delivered{0};
  callback->on_deliver = [&](const Record&) { return ++delivered, OkStatus(); };
  const auto site = MakeSite(callback);
  std::thread producer([&] {
    for (int i = 0; i < kRecords; ++i) Push(*site, i);
  });
  std::thread parker([&] {
    while (delivered.load() < kRecords) delivery_.Park();
  });
  std::thread other_parker([&] {
    while (delivered.load() < kRecords) delivery_.Park();
  });
  producer.join();
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  parker.join();
  other_parker.join();
  EXPECT_EQ(delivered.load(), kRecords);
}

TEST_F(ParkTest, AThreadThatCouldNotBeStartedIsStartedByTheNextRecord) {
  const auto callback = std::make_shared<FakeCallback>("parks.limits");
  std::atomic<int> delivered{0};
  callback->on_deliver = [&](const Record&) { return ++delivered, OkStatus(); };
  const auto site = MakeSite(callback);
  for (int round = 1; round <= 2; ++round) {  // first without a thread, then with a parked one
    {
      const NoThreads none;
      EXPECT_THAT([&] { Push(*site, 1); },
                  ThrowsMessage<std::system_error>(HasSubstr("cannot start the thread 'callout-native0'")));
    }
    EXPECT_EQ(delivery_.RunningThreads(), 0);
    Push(*site, 2);
    ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
    EXPECT_EQ(delivered.load(), 2 * round - 1) << "of the second round, the record that was queued, too";
    delivery_.Park();
  }
}

TEST_F(ParkTest, ABarrierStartsTheThreadThatARecordCouldNotOrSaysWhyNot) {
  const auto callback = std::make_shared<FakeCallback>("parks.waits");
  std::atomic<int> delivered{0};
  callback->on_deliver = [&](const Record&) { return ++delivered, OkStatus(); };
  auto site = MakeSite(callback);
  Push(*site, 1);
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
  delivery_.Park();
  {
    const NoThreads none;
    EXPECT_THROW(Push(*site, 2), std::system_error);
    EXPECT_THROW((void)delivery_.Drain(kForever), std::system_error);
    delivery_.Retire(std::move(site));  // a destructor calls Retire, which must not throw
  }
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  EXPECT_EQ(delivered.load(), 2);
  EXPECT_EQ(LiveCount(LiveKind::kSite), 0);
}

TEST_F(ParkTest, AnEndWithoutAThreadCountsWhatIsLost) {
  const auto site = MakeSite(std::make_shared<FakeCallback>("parks.ends"));
  Push(*site, 1);
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
  delivery_.Park();
  const NoThreads none;
  EXPECT_THROW(Push(*site, 2), std::system_error);
  EXPECT_EQ(delivery_.Shutdown(kForever), 1U);
}

TEST_F(ParkTest, ARetiredSiteOfAParkedThreadIsDestroyed) {
  const auto callback = std::make_shared<FakeCallback>("parks.retires");
  auto site = MakeSite(callback);
  Push(*site, 1);
  ASSERT_THAT(delivery_.Drain(kForever), IsEmpty());
  delivery_.Park();
  delivery_.Retire(std::move(site));
  EXPECT_THAT(delivery_.Drain(kForever), IsEmpty());
  EXPECT_EQ(LiveCount(LiveKind::kSite), 0);
}

}  // namespace
}  // namespace callout::internal
