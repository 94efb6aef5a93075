// SPDX-License-Identifier: Apache-2.0
//
// Tests hand-overs: the rows of several taps that are sent together, and delivered in the order of their turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/callbacks/call_statistics.h"
#include "core/delivery/delivery.h"
#include "core/delivery/tap_rows.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Rows = std::vector<float>;
using Turns = std::vector<uint32_t>;

class HandOverTest : public LiveCountTest {
 protected:
  HandOverTest() { ResetStats(); }

  // A callback that writes "label value" for each record, and " +skipped" if records were left out before.
  std::shared_ptr<FakeCallback> Receiver(const std::string& name) {
    auto callback = std::make_shared<FakeCallback>(name);
    callback->on_deliver = [this](const Record& record) {
      std::string text =
          record.site->label + " " + std::to_string(static_cast<int>(*static_cast<float*>(record.buffers[0].data)));
      if (record.step) text += " @" + std::to_string(*record.step);
      if (record.skipped > 0) text += " +" + std::to_string(record.skipped);
      seen_.push_back(std::move(text));
      sequences_.push_back(record.sequence);
      return OkStatus();
    };
    return callback;
  }
  std::unique_ptr<TapSite> Site(std::string_view label, int64_t following, int64_t every = 1, bool turns = false,
                                OverflowPolicy policy = OverflowPolicy::kBlock) {
    TapAttributes attributes;
    attributes.label = label;
    attributes.rows = true;
    attributes.turns = turns;
    attributes.hand_over = 3;
    attributes.following = following;
    attributes.every = every;
    attributes.on_full = policy;
    return std::make_unique<TapSite>(Receiver("HandOverTest." + std::string(label)), attributes);
  }
  Status Send(TapSite& site, const Rows& rows, const std::optional<Turns>& turns = {}, int64_t run_id = 1) {
    TestBuffer values = TestBuffer::Of<float>({static_cast<int64_t>(rows.size())}, rows);
    TestBuffer count = TestBuffer::Scalar(static_cast<uint32_t>(rows.size()));
    std::vector<callout_buffer> operands = {values.view(), count.view()};
    std::optional<TestBuffer> given;
    if (turns) {
      given = TestBuffer::Of<uint32_t>({static_cast<int64_t>(turns->size())}, *turns);
      operands.push_back(given->view());
    }
    const Status status = delivery_.Push(site, {.buffers = operands, .run_id = run_id});
    for (std::byte& byte : std::as_writable_bytes(std::span(values.bytes()))) byte = std::byte{0xee};
    return status;
  }
  void Drain() { ASSERT_THAT(delivery_.Drain(kForever), IsEmpty()); }

  Delivery delivery_;
  std::vector<std::string> seen_;
  std::vector<uint64_t> sequences_;
};

TEST_F(HandOverTest, RowsAreMergedByTheirTurns) {
  const auto first = Site("a", 1), last = Site("b", 0, 1, /*turns=*/true);
  ASSERT_THAT(Send(*first, {10, 11, 12}), IsOk());
  Drain();
  EXPECT_THAT(seen_, IsEmpty()) << "the rows wait for those of the last tap";
  ASSERT_THAT(Send(*last, {20, 21, 22}, Turns{0, 0, 2}), IsOk());
  Drain();
  EXPECT_THAT(seen_, ElementsAre("a 10", "b 20", "b 21", "a 11", "a 12", "b 22"));
  EXPECT_THAT(sequences_, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(delivery_.QueueStatistics().at(0).stats.delivered, 6U);
  EXPECT_EQ(first->callback->stats().calls(), 3U);
}

TEST_F(HandOverTest, RunsDoNotMix) {
  const auto first = Site("a", 1), last = Site("b", 0);
  ASSERT_THAT(Send(*first, {1}, {}, 7), IsOk());
  ASSERT_THAT(Send(*first, {2}, {}, 8), IsOk());
  ASSERT_THAT(Send(*last, {3}, {}, 8), IsOk());
  Drain();
  EXPECT_THAT(seen_, ElementsAre("a 2", "b 3"));
  ASSERT_THAT(Send(*last, {4}, {}, 7), IsOk());
  Drain();
  EXPECT_THAT(seen_, ElementsAre("a 2", "b 3", "a 1", "b 4"));
}

TEST_F(HandOverTest, TapsMayHaveNoRows) {
  const auto first = Site("a", 2), second = Site("b", 1), last = Site("c", 0);
  for (const auto& [of_first, of_last] : {std::pair<Rows, Rows>({1, 2}, {}), {{}, {3}}, {{}, {}}}) {
    ASSERT_THAT(Send(*first, of_first), IsOk());
    ASSERT_THAT(Send(*second, {}), IsOk());
    ASSERT_THAT(Send(*last, of_last), IsOk());
  }
  Drain();
  EXPECT_THAT(seen_, ElementsAre("a 1", "a 2", "c 3"));
}

TEST_F(HandOverTest, RowsThatAreLeftOutKeepTheOthersTurns) {
  const auto first = Site("a", 1, /*every=*/2), last = Site("b", 0, /*every=*/3);
  ASSERT_THAT(Send(*first, {0, 1, 2, 3}), IsOk());
  ASSERT_THAT(Send(*last, {10, 11, 12, 13}), IsOk());
  ASSERT_THAT(Send(*first, {4, 5, 6, 7}), IsOk());
  ASSERT_THAT(Send(*last, {14, 15, 16, 17}), IsOk());
  Drain();
  EXPECT_THAT(seen_, ElementsAre("a 0", "b 10", "a 2 +1", "b 13 +2", "a 4 +1", "a 6 +1", "b 16 +2"));
}

TEST_F(HandOverTest, AFullQueueDropsAllRowsAndTheNextOfEachTapKnows) {
  ASSERT_THAT(delivery_.Configure({.queue_bytes = kMinQueueBytes}), IsOk());
  const auto blocking = std::make_shared<BlockingCallback>("HandOverTest.blocking");
  const auto full = MakeSite(blocking);
  TestBuffer large = TestBuffer::Zeros(DType::kUint8, {12'000'000});
  const callout_buffer operands[] = {large.view()};
  ASSERT_THAT(delivery_.Push(*full, {.buffers = operands}), IsOk());
  blocking->WaitUntilEntered(1);
  const auto first = Site("a", 1, 1, false, OverflowPolicy::kDropNewest);
  const auto last = Site("b", 0, 1, false, OverflowPolicy::kDropNewest);
  ASSERT_THAT(Send(*first, Rows(900'000)), IsOk());
  ASSERT_THAT(Send(*last, Rows(800'000)), IsOk());
  EXPECT_EQ(first->callback->stats().drops.load(), 900'000U);
  EXPECT_EQ(last->callback->stats().drops.load(), 800'000U);
  blocking->Open();
  Drain();
  EXPECT_THAT(seen_, IsEmpty());
  ASSERT_THAT(Send(*first, {1}), IsOk());
  ASSERT_THAT(Send(*last, {2}), IsOk());
  Drain();
  EXPECT_THAT(seen_, ElementsAre("a 1 +900000", "b 2 +800000"));
}

TEST_F(HandOverTest, RowsOfFailedProgramsAreForgottenInTime) {
  const auto first = Site("a", 1), last = Site("b", 0);
  for (int64_t run = 1; run <= 1000; ++run) ASSERT_THAT(Send(*first, {1}, {}, run), IsOk());
  ASSERT_THAT(Send(*last, {2}, {}, 1), IsOk());
  ASSERT_THAT(Send(*last, {3}, {}, 1000), IsOk());
  Drain();
  EXPECT_THAT(seen_, ElementsAre("b 2", "a 1", "b 3"));
}

}  // namespace
}  // namespace callout::internal
