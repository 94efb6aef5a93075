// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/special_floats.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WatchTest : public LiveCountTest {
 protected:
  void SetUp() override {
    ResetWatches();
    LiveCountTest::SetUp();
  }

  static Status Look(Callback& watch, std::vector<TestBuffer> buffers, Record record = {}) {
    std::vector<callout_buffer> views;
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    SiteInfo site = {.label = "w", .leaf_names = {"a", "b"}};
    site.leaf_names.resize(views.size());
    record.site = &site;
    record.buffers = views;
    Result<Inspector::Send> send = watch.inspector()->Inspect(record);
    if (!send.ok()) return std::move(send).status();
    EXPECT_NE(*send, Inspector::Send::kRecord) << "a watch needs no copies";
    return *send == Inspector::Send::kNotice ? watch.Deliver(record) : OkStatus();
  }
  static std::shared_ptr<Callback> Make(std::string_view payload) {
    auto watch = MakeWatch("watch", payload);
    EXPECT_THAT(watch, IsOk());
    return *std::move(watch);
  }
  static TestBuffer Values(const std::vector<float>& values) {
    return TestBuffer::Of<float>({static_cast<int64_t>(values.size()) / 2, 2}, values);
  }
  static WatchCounts Counts() {
    for (const auto& [name, counts] : AllWatches()) {
      if (name == "w") return counts;
    }
    return {};
  }

  LogCapture log_;
};

TEST_F(WatchTest, GoodValuesAreCounted) {
  const auto watch = Make("1;ni;report");
  EXPECT_THAT(Look(*watch, {Values({1, 2, 3, 4}), Values({5, 6})}), IsOk());
  const WatchCounts counts = Counts();
  EXPECT_EQ(counts.calls, 1U);
  EXPECT_EQ(counts.elements, 6U);
  EXPECT_EQ(counts.bad_calls, 0U);
  EXPECT_FALSE(counts.first.has_value());
  EXPECT_THAT(log_.messages(), IsEmpty());
}

TEST_F(WatchTest, TheFirstBadPlaceIsKeptAndLoggedOnce) {
  const auto watch = Make("1;ni;report");
  EXPECT_THAT(Look(*watch, {Values({1, 2}), Values({3, 4})}), IsOk());
  EXPECT_THAT(Look(*watch, {Values({1, 2}), Values({3, 4, 5, kInf})}, {.device_ordinal = 3, .run_id = 9}), IsOk());
  EXPECT_THAT(Look(*watch, {Values({kNan, 2}), Values({3, 4})}), IsOk());
  const WatchCounts counts = Counts();
  EXPECT_EQ(counts.calls, 3U);
  EXPECT_EQ(counts.bad_calls, 2U);
  EXPECT_EQ(counts.nan, 1U);
  EXPECT_EQ(counts.infinite, 1U);
  ASSERT_TRUE(counts.first.has_value());
  EXPECT_EQ(counts.first->leaf, "b");
  EXPECT_EQ(counts.first->shape, "f32[2,2]");
  EXPECT_THAT(counts.first->index, ElementsAre(1, 1));
  EXPECT_THAT(counts.first->shard, IsEmpty());
  EXPECT_EQ(counts.first->device_ordinal, 3);
  EXPECT_EQ(counts.first->run_id, 9);
  EXPECT_FALSE(counts.first->is_nan);
  EXPECT_THAT(log_.messages(), ElementsAre(HasSubstr("watch 'w': 0 NaN and 1 infinite elements in step 0; the first is "
                                                     "infinite, at [1,1] of 'b', f32[2,2], on device 3")));
}

TEST_F(WatchTest, StepIsToldOrCountedForEachDevice) {
  const auto watch = Make("1;ni;report");
  EXPECT_THAT(Look(*watch, {Values({1, 1})}, {.skipped = 4}), IsOk());
  EXPECT_THAT(Look(*watch, {Values({1, 1})}, {.device_ordinal = 1}), IsOk());
  EXPECT_THAT(Look(*watch, {Values({1, kNan})}), IsOk());
  EXPECT_EQ(Counts().first->step, 5);
  ResetWatches();
  EXPECT_THAT(Look(*watch, {Values({1, kNan})}, {.step = 77}), IsOk());
  EXPECT_EQ(Counts().first->step, 77);
}

TEST_F(WatchTest, ShardsAreSeenInTheWholeValue) {
  const auto watch = Make("1;ni;report");
  const std::vector<int64_t> offsets = {0, 0, 10, 20};
  Record record = {};
  record.offsets = offsets;
  EXPECT_THAT(Look(*watch, {Values({1, 1}), Values({1, 1, kNan, 1})}, record), IsOk());
  EXPECT_THAT(Counts().first->index, ElementsAre(11, 20));
  EXPECT_THAT(Counts().first->shard, ElementsAre(10, 20));
}

TEST_F(WatchTest, StopFailsEachTime) {
  const auto watch = Make("1;n;stop");
  EXPECT_THAT(Look(*watch, {Values({1, kInf})}), IsOk()) << "nobody asked for infinities";
  for (int i = 1; i < 3; ++i) {
    EXPECT_THAT(Look(*watch, {Values({kNan, kInf})}),
                StatusIs(StatusCode::kInternal, "watch 'w': 1 NaN and 1 infinite elements in step " +
                                                    std::to_string(i) + "; the first is a NaN, at [0,0]"));
  }
  EXPECT_EQ(Counts().infinite, 3U);
  EXPECT_EQ(Counts().bad_calls, 2U);
}

TEST_F(WatchTest, ThreadsCountTogether) {
  const auto watch = Make("1;ni;report");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) EXPECT_THAT(Look(*watch, {Values({1, kNan})}, {.device_ordinal = t}), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Counts().calls, 2000U);
  EXPECT_EQ(Counts().nan, 2000U);
  EXPECT_EQ(log_.messages().size(), 1U);
}

TEST_F(WatchTest, PayloadsAreOneOfSix) {
  for (const char* payload : {"1;n;report", "1;i;report", "1;ni;report", "1;n;stop", "1;i;stop", "1;ni;stop"}) {
    EXPECT_THAT(MakeWatch("watch", payload), IsOk()) << payload;
  }
  for (const char* payload : {"", "1", "1;;stop", "2;ni;stop", "1;ni;stop;", "1;in;report"}) {
    EXPECT_THAT(MakeWatch("watch", payload).status(), StatusIs(StatusCode::kInvalidArgument, "a watch must be"))
        << payload;
  }
  EXPECT_THAT(Make("1;ni;report")->Call({}), StatusIs(StatusCode::kFailedPrecondition, "cannot be called"));
}

}  // namespace
}  // namespace callout::internal
