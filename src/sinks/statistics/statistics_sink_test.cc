// SPDX-License-Identifier: Apache-2.0
#include "sinks/statistics/statistics_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "callout/dtype.h"
#include "core/frame/elements.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

using StatisticsSinkTest = LiveCountTest;

Status Deliver(Callback& sink, const SiteInfo& site, std::vector<TestBuffer> buffers) {
  std::vector<callout_buffer> views;
  for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
  std::vector<void*> blocks(views.size());
  const Record record = {.site = &site,
                         .buffers = views,
                         .blocks = blocks.data(),
                         .device_ordinal = 0,
                         .run_id = 0,
                         .sequence = 0,
                         .ticks = 0};
  return sink.Deliver(record);
}

std::vector<double> Doubles(TestBuffer buffer) {
  const callout_buffer view = buffer.view();
  std::vector<double> values(static_cast<size_t>(ElementCount(view)));
  EXPECT_TRUE(ReadDoubles(view, 0, values.size(), values.data()).ok());
  return values;
}

TEST_F(StatisticsSinkTest, LeavesOfTapsAreCountedApart) {
  StatisticsSink sink("statistics", {});
  const SiteInfo grads = {"grads", {"w", "b"}}, loss = {"loss", {""}};
  EXPECT_THAT(Deliver(sink, grads, {TestBuffer::Of<float>({3}, {1, 2, 6}), TestBuffer::Scalar(4)}), IsOk());
  EXPECT_THAT(Deliver(sink, loss, {TestBuffer::Scalar(0.5)}), IsOk());
  EXPECT_THAT(Deliver(sink, grads, {TestBuffer::Of<float>({1}, {7}), TestBuffer::Scalar(8)}), IsOk());
  EXPECT_THAT(sink.Keys(), ElementsAre(Pair("grads", "b"), Pair("grads", "w"), Pair("loss", "")));
  const auto weights = sink.Find({"grads", "w"});
  ASSERT_TRUE(weights.has_value());
  EXPECT_EQ(weights->records(), 2U);
  EXPECT_EQ(weights->moments().count(), 4U);
  EXPECT_EQ(weights->moments().mean(), 4);
  EXPECT_EQ(sink.Snapshot().size(), 3U);
  EXPECT_FALSE(sink.Find({"grads", ""}).has_value());
  sink.Reset();
  EXPECT_TRUE(sink.Keys().empty());
  EXPECT_EQ(weights->moments().mean(), 4) << "a snapshot stays";
}

TEST_F(StatisticsSinkTest, ElementsOfEveryFloatType) {
  for (uint32_t number = 1; number < kDTypeLimit; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!RowOf(dtype).is_small_float()) continue;
    const int bits = BitWidth(dtype);
    TestBuffer all = TestBuffer::Zeros(dtype, {int64_t{1} << bits});
    for (size_t i = 0; i < all.bytes().size(); ++i) {
      const size_t pattern = bits == 16 ? i / 2 : i;
      all.bytes()[i] = bits == 4    ? static_cast<uint8_t>(2 * i | (2 * i + 1) << 4)
                       : bits == 16 ? static_cast<uint8_t>(i % 2 == 0 ? pattern : pattern >> 8)
                                    : static_cast<uint8_t>(pattern);
    }
    const std::vector<double> got = Doubles(all);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto expected = static_cast<double>(SmallFloatToFloat(RowOf(dtype).format, static_cast<uint16_t>(i)));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got[i])) << ShortName(dtype) << " " << i;
      } else {
        EXPECT_EQ(got[i], expected) << ShortName(dtype) << " " << i;
        EXPECT_EQ(std::signbit(got[i]), std::signbit(expected)) << ShortName(dtype) << " " << i;
      }
    }
  }
}

TEST_F(StatisticsSinkTest, ElementsOfOtherTypes) {
  EXPECT_THAT(Doubles(TestBuffer(DType::kInt4, {4}, {0x8F, 0x72})), ElementsAre(-1, -8, 2, 7));
  EXPECT_THAT(Doubles(TestBuffer(DType::kUint4, {2}, {0x8F})), ElementsAre(15, 8));
  EXPECT_THAT(Doubles(TestBuffer(DType::kInt2, {4}, {0b11'10'01'00})), ElementsAre(0, 1, -2, -1));
  EXPECT_THAT(Doubles(TestBuffer(DType::kBool, {3}, {0, 1, 2})), ElementsAre(0, 1, 1));
  EXPECT_THAT(Doubles(TestBuffer::Of<int64_t>({2}, {-5, int64_t{1} << 60})), ElementsAre(-5, 0x1p60));
  EXPECT_THAT(Doubles(TestBuffer::Of<uint64_t>({1}, {~uint64_t{0}})), ElementsAre(0x1p64));
  EXPECT_THAT(Doubles(TestBuffer::Of<uint8_t>({1}, {255})), ElementsAre(255));
  EXPECT_THAT(Doubles(TestBuffer::Of<int16_t>({1}, {-300})), ElementsAre(-300));
  EXPECT_THAT(Doubles(TestBuffer::Of<std::complex<float>>({2}, {{3, -4}, {0, 1}})), ElementsAre(5, 1));
}

// Parts of an array begin and end inside of it.
TEST_F(StatisticsSinkTest, PackedElementsOfSeveralParts) {
  StatisticsSink sink("statistics", {});
  TestBuffer odd = TestBuffer::Zeros(DType::kUint4, {2049});
  for (uint8_t& byte : odd.bytes()) byte = 0x31;
  EXPECT_THAT(Deliver(sink, {"x", {""}}, {odd}), IsOk());
  const Moments moments = sink.Find({"x", ""})->moments();
  EXPECT_EQ(moments.count(), 2049U);
  EXPECT_EQ(moments.sum(), 4 * 1024 + 1);
}

TEST_F(StatisticsSinkTest, GivenBinsCountAsNumpyDoes) {
  StatisticsSink sink("statistics", {.quantiles = false, .edges = {0, 0.1, 0.2, 0.3}});
  EXPECT_THAT(Deliver(sink, {"x", {""}}, {TestBuffer::Of<double>({8}, {-1, 0, 0.1, 0.15, 0.2, 0.3, 0.30001, NAN})}),
              IsOk());
  const auto found = sink.Find({"x", ""});
  EXPECT_THAT(found->bins()->counts(), ElementsAre(1, 2, 2));
  EXPECT_FALSE(found->sketch().has_value());
  StatisticsSink uneven("statistics", {.quantiles = false, .edges = {-1, 0, 10, 11}});
  EXPECT_THAT(Deliver(uneven, {"x", {""}}, {TestBuffer::Of<double>({6}, {-2, -1, 0, 9.9, 10, 11})}), IsOk());
  EXPECT_THAT(uneven.Find({"x", ""})->bins()->counts(), ElementsAre(1, 2, 2));
}

TEST_F(StatisticsSinkTest, OnlyTheSameKindIsMerged) {
  LeafStatistics all({}), light({.quantiles = false, .edges = {}}), bins({.edges = {0, 1}}), others({.edges = {0, 2}});
  EXPECT_THAT(all.Merge(light), StatusIs(StatusCode::kInvalidArgument, "with quantiles and statistics without"));
  EXPECT_THAT(all.Merge(bins), StatusIs(StatusCode::kInvalidArgument, "different edges"));
  EXPECT_THAT(bins.Merge(others), StatusIs(StatusCode::kInvalidArgument, "different edges"));
  EXPECT_THAT(all.Merge(LeafStatistics({})), IsOk());
}

// Every snapshot is of whole records: each has as many zeros as ones, and one sum.
TEST_F(StatisticsSinkTest, ReadersSeeWholeRecords) {
  StatisticsSink sink("statistics", {});
  const SiteInfo site = {"x", {"", "y"}};
  std::vector<float> halves(4096, 0);
  std::fill(halves.begin() + 2048, halves.end(), 1.0F);
  constexpr uint64_t kRecords = 200;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kRecords; ++i) {
      EXPECT_THAT(Deliver(sink, site, {TestBuffer::Of<float>({4096}, halves), TestBuffer::Scalar(1)}), IsOk());
    }
  });
  uint64_t records = 0;
  while (records < kRecords) {
    const auto snapshot = sink.Snapshot();
    if (snapshot.empty()) continue;
    ASSERT_EQ(snapshot.size(), 2U);
    const LeafStatistics& leaf = snapshot[0].second;
    EXPECT_GE(leaf.records(), records);
    records = leaf.records();
    EXPECT_EQ(snapshot[1].second.records(), records);
    EXPECT_EQ(leaf.moments().count(), records * 4096);
    EXPECT_EQ(leaf.moments().zeros(), records * 2048);
    EXPECT_EQ(leaf.moments().sum(), static_cast<double>(records * 2048));
    EXPECT_EQ(leaf.sketch()->count(), records * 4096);
  }
  writer.join();
}

}  // namespace
}  // namespace callout::internal
