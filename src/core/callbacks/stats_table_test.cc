// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/call_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/callbacks/callback.h"
#include "testing/fake_callbacks.h"

namespace callout::internal {
namespace {

class StatsTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ResetStats(); }
  void TearDown() override { ResetStats(); }

  static bool Has(const std::string& label) {
    const auto all = AllStats();
    return std::any_of(all.begin(), all.end(), [&](const auto& entry) { return entry.first == label; });
  }
};

TEST_F(StatsTableTest, CallbacksOfOneLabelShareTheirCounters) {
  const FakeCallback a("shared");
  const FakeCallback b("shared");
  const FakeCallback c("other");
  a.stats().odd_calls.fetch_add(2);
  b.stats().odd_calls.fetch_add(3);
  EXPECT_EQ(StatsFor("shared")->calls(), 5U);
  EXPECT_EQ(c.stats().calls(), 0U);
}

TEST_F(StatsTableTest, CallsThatPassAreCountedWithTheirBytes) {
  const FakeCallback callback("passes");
  CallbackStats& stats = callback.stats();
  stats.Count(0);
  EXPECT_EQ(stats.calls(), 1U);
  EXPECT_EQ(stats.bytes(), 0U);
  stats.odd_calls.fetch_add(1);
  stats.odd_bytes.fetch_add(100);
  for (const uint64_t size : {7, 0, 7, 1}) stats.Count(size);
  EXPECT_EQ(stats.calls(), 6U);
  EXPECT_EQ(stats.bytes(), 115U);
  ResetStats();
  EXPECT_EQ(stats.calls(), 0U);
  EXPECT_EQ(stats.bytes(), 0U);
  stats.Count(9);
  EXPECT_EQ(stats.calls(), 1U);
  EXPECT_EQ(stats.bytes(), 9U);
}

TEST_F(StatsTableTest, CallsThatPassOnSeveralThreadsAreAllCounted) {
  const FakeCallback callback("passes together");
  CallbackStats& stats = callback.stats();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (uint64_t size = 1; size <= 4; ++size) {
    threads.emplace_back([&stats, size] {
      for (int i = 0; i < 1000; ++i) stats.Count(size);
    });
  }
  uint64_t before = 0;
  do {  // another thread never sees the count decrease
    const uint64_t seen = stats.bytes();
    EXPECT_GE(seen, before);
    EXPECT_LE(seen, 10'000U);
    before = seen;
  } while (stats.calls() < 4000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats.calls(), 4000U);
  EXPECT_EQ(stats.bytes(), 10'000U);
}

TEST_F(StatsTableTest, CountersOutliveTheirCallback) {
  {
    const FakeCallback callback("gone");
    callback.stats().drops.fetch_add(4);
  }
  EXPECT_TRUE(Has("gone"));
  EXPECT_EQ(StatsFor("gone")->drops.load(), 4U);
}

TEST_F(StatsTableTest, AllStatsAreInOrderOfTheirLabels) {
  for (const char* label : {"b", "c", "a"}) (void)StatsFor(label);
  std::vector<std::string> labels;
  for (const auto& [label, stats] : AllStats()) labels.push_back(label);
  EXPECT_EQ(labels, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(StatsTableTest, ResetForgetsDeadLabelsAndZeroesLiveOnes) {
  const FakeCallback live("live");
  (void)StatsFor("dead");
  CallbackStats& stats = live.stats();
  for (auto* counter :
       {&stats.odd_calls, &stats.odd_bytes, &stats.host_ticks, &stats.drops, &stats.skips, &stats.errors}) {
    counter->store(9);
  }
  ResetStats();
  EXPECT_FALSE(Has("dead"));
  EXPECT_TRUE(Has("live"));
  for (auto* counter :
       {&stats.odd_calls, &stats.odd_bytes, &stats.host_ticks, &stats.drops, &stats.skips, &stats.errors}) {
    EXPECT_EQ(counter->load(), 0U);
  }
  stats.odd_calls.store(1);
  EXPECT_EQ(StatsFor("live")->calls(), 1U) << "the live callback lost its counters";
}

TEST_F(StatsTableTest, MadeUpLabelsDoNotGrowItForEver) {
  const FakeCallback live("live");
  for (int i = 0; i < 10000; ++i) (void)StatsFor("label" + std::to_string(i));
  EXPECT_LE(AllStats().size(), 4096U);
  EXPECT_TRUE(Has("live"));
  EXPECT_TRUE(Has("label9999"));
}

}  // namespace
}  // namespace callout::internal
