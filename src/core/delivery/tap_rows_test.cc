// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/tap_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/callbacks/call_statistics.h"
#include "core/delivery/delivery.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Integers = std::vector<int64_t>;

// A copy of a record.
struct SeenRow {
  std::optional<int64_t> step;
  uint64_t sequence;
  uint32_t skipped;
  int32_t device_ordinal;
  int64_t run_id;
  Integers offsets;
  std::vector<Integers> dims;
  std::vector<std::vector<uint8_t>> bytes;
};

class TapRowsTest : public LiveCountTest {
 protected:
  TapRowsTest() {
    ResetStats();
    callback_->on_deliver = [this](const Record& record) { return Keep(record), OkStatus(); };
  }

  static TapAttributes Attributes() {
    TapAttributes attributes;
    attributes.rows = true;
    return attributes;
  }
  static TapAttributes WithSteps(int64_t every = 1) {
    TapAttributes attributes = Attributes();
    attributes.step = true;
    attributes.every = every;
    return attributes;
  }
  static TapAttributes WithPolicy(OverflowPolicy policy, int64_t every = 1) {
    TapAttributes attributes = Attributes();
    attributes.on_full = policy;
    attributes.every = every;
    return attributes;
  }
  std::unique_ptr<TapSite> Site(const TapAttributes& attributes = Attributes()) const {
    return std::make_unique<TapSite>(callback_, attributes);
  }

  // Sends operands, and clears their memory afterwards.
  Status Send(TapSite& site, std::vector<TestBuffer> operands, Sending sending = {}) {
    std::vector<callout_buffer> views;
    for (TestBuffer& operand : operands) views.push_back(operand.view());
    sending.buffers = views;
    const Status status = delivery_.Push(site, sending);
    for (TestBuffer& operand : operands) std::fill(operand.bytes().begin(), operand.bytes().end(), uint8_t{0xee});
    return status;
  }

  static TestBuffer Count(uint32_t count) { return TestBuffer::Scalar(count); }
  static TestBuffer Floats(const std::vector<float>& values) {
    return TestBuffer::Of<float>({static_cast<int64_t>(values.size())}, values);
  }
  static TestBuffer Steps(const Integers& steps) {
    return TestBuffer::Of<int64_t>({static_cast<int64_t>(steps.size())}, steps);
  }

  void Drain() { ASSERT_THAT(delivery_.Drain(kForever), IsEmpty()); }
  QueueStats Statistics() const { return delivery_.QueueStatistics().at(0).stats; }

  void Keep(const Record& record) {
    SeenRow row = {record.step, record.sequence, record.skipped, record.device_ordinal, record.run_id, {}, {}, {}};
    row.offsets.assign(record.offsets.begin(), record.offsets.end());
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      const callout_buffer& buffer = record.buffers[i];
      const auto* data = static_cast<const uint8_t*>(buffer.data);
      row.dims.emplace_back(buffer.dims, buffer.dims + buffer.rank);
      row.bytes.emplace_back(data, data + buffer.size_bytes);
      EXPECT_EQ(record.blocks[i], nullptr) << "no receiver may keep the memory that rows share";
    }
    seen_.push_back(std::move(row));
  }

  // Returns one member of each record.
  template <typename T>
  std::vector<T> Each(T SeenRow::* member) const {
    std::vector<T> all;
    for (const SeenRow& row : seen_) all.push_back(row.*member);
    return all;
  }
  // Returns all elements of a leaf, of one record after another.
  template <typename T = float>
  std::vector<T> Values(size_t leaf = 0) const {
    std::vector<T> all;
    for (const SeenRow& row : seen_) {
      const std::vector<T> values = TestBuffer(DTypeOf<T>::value, {}, row.bytes.at(leaf)).template values<T>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  Delivery delivery_;
  std::vector<SeenRow> seen_;
  std::shared_ptr<FakeCallback> callback_ = std::make_shared<FakeCallback>("TapRowsTest.f");
};

TEST_F(TapRowsTest, EachRowIsARecordOfItsOwn) {
  const auto site = Site(WithSteps());
  const auto whole = MakeSite(callback_);
  ASSERT_THAT(
      Send(*site, {TestBuffer::Of<float>({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31}), Steps({7, 9, -3, 99}), Count(3)},
           {.buffers = {}, .device_ordinal = 2, .run_id = 77}),
      IsOk());
  ASSERT_THAT(Send(*whole, {Floats({5})}, {.buffers = {}, .device_ordinal = 2}), IsOk());
  ASSERT_THAT(Send(*site, {TestBuffer::Of<float>({1, 2}, {40, 41}), Steps({8}), Count(1)},
                   {.buffers = {}, .device_ordinal = 2}),
              IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(0, 1, 10, 11, 20, 21, 5, 40, 41));
  EXPECT_THAT(Each(&SeenRow::step), ElementsAre(7, 9, -3, std::nullopt, 8));
  EXPECT_THAT(Each(&SeenRow::sequence), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(Each(&SeenRow::device_ordinal), ElementsAre(2, 2, 2, 2, 2));
  EXPECT_THAT(Each(&SeenRow::run_id), ElementsAre(77, 77, 77, 0, 0));
  for (const size_t i : {0, 1, 2, 4}) EXPECT_THAT(seen_.at(i).dims, ElementsAre(Integers{2})) << i;
  EXPECT_EQ(callback_->stats().calls(), 5U);
}

TEST_F(TapRowsTest, RowsWithoutStepsHaveNone) {
  const auto site = Site();
  ASSERT_THAT(Send(*site, {Floats({1, 2}), Count(2)}), IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::step), ElementsAre(std::nullopt, std::nullopt));
}

// Under vmap, the step has more dimensions.
TEST_F(TapRowsTest, FirstElementOfABatchedStepCounts) {
  const auto site = Site(WithSteps());
  ASSERT_THAT(Send(*site, {Floats({1, 2, 3}), TestBuffer::Of<int16_t>({3, 2}, {4, -1, 5, -2, 6, -3}), Count(2)}),
              IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::step), ElementsAre(4, 5));
}

TEST_F(TapRowsTest, NoRowsSendNothing) {
  const auto site = Site();
  bool queued = false;
  ASSERT_THAT(Send(*site, {Floats({1, 2}), Count(0)}, {.buffers = {}, .queued = &queued}), IsOk());
  EXPECT_FALSE(queued);
  EXPECT_THAT(delivery_.QueueStatistics(), IsEmpty());
  ASSERT_THAT(Send(*site, {Floats({}), Count(0)}), IsOk());
  ASSERT_THAT(Send(*site, {Floats({3}), Count(1)}, {.buffers = {}, .queued = &queued}), IsOk());
  EXPECT_TRUE(queued);
  Drain();
  EXPECT_THAT(Values(), ElementsAre(3));
  EXPECT_THAT(Each(&SeenRow::sequence), ElementsAre(1));
}

TEST_F(TapRowsTest, RowsMayBeScalarsOrEmptyOrLarge) {
  TapAttributes attributes = Attributes();
  attributes.leaves = "scalar\nempty\nlarge";
  const auto site = Site(attributes);
  std::vector<uint8_t> large(3 * 5000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint8_t>(i / 5000);
  ASSERT_THAT(Send(*site, {TestBuffer::Of<int16_t>({3}, {7, 8, 9}), TestBuffer::Zeros(DType::kFloat64, {3, 0, 2}),
                           TestBuffer(DType::kUint8, {3, 5000}, large), Count(3)}),
              IsOk());
  Drain();
  ASSERT_THAT(seen_, SizeIs(3));
  EXPECT_THAT(Values<int16_t>(), ElementsAre(7, 8, 9));
  EXPECT_EQ(Values<uint8_t>(2), large);
  for (const SeenRow& row : seen_) {
    EXPECT_THAT(row.dims, ElementsAre(Integers{}, Integers{0, 2}, Integers{5000}));
    EXPECT_THAT(row.bytes.at(1), IsEmpty());
  }
}

TEST_F(TapRowsTest, RowsOfSubByteElementsAreSentIfTheyAreWholeBytes) {
  const auto site = Site();
  ASSERT_THAT(Send(*site, {TestBuffer(DType::kInt4, {3, 4}, {0x21, 0x43, 0x65, 0x07, 0x11, 0x22}), Count(2)}), IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::bytes), ElementsAre(ElementsAre(ElementsAre(0x21, 0x43)),  // 1, 2, 3, 4
                                                 ElementsAre(ElementsAre(0x65, 0x07))));
}

TEST_F(TapRowsTest, OffsetsOfARowAreThoseOfItsOwnDimensions) {
  TapAttributes attributes = WithSteps();
  attributes.leaves = "matrix\nlist\nscalar";
  attributes.offsets = true;
  attributes.every = 2;
  const auto site = Site(attributes);
  for (const size_t more : {0, 1}) {  // A batched step has an offset, too.
    Integers offsets = {50, 1, 2, 60, 3, 70};
    offsets.resize(offsets.size() + more, 80);
    ASSERT_THAT(Send(*site, {TestBuffer::Zeros(DType::kFloat32, {2, 2, 3}), TestBuffer::Zeros(DType::kFloat32, {2, 2}),
                             Floats({1, 2}), Steps({2, 4}), Count(2), Steps(offsets)}),
                IsOk());
  }
  Drain();
  const Integers expected = {1, 2, 3};
  EXPECT_THAT(Each(&SeenRow::offsets), ElementsAre(expected, expected, expected, expected));
  EXPECT_THAT(Each(&SeenRow::step), ElementsAre(2, 4, 2, 4));
  for (const SeenRow& row : seen_) EXPECT_THAT(row.dims, ElementsAre(Integers{2, 3}, Integers{2}, Integers{}));
}

// The rows behind the last one that is sent are known to the next call's first record, and to no earlier one.
TEST_F(TapRowsTest, EveryThirdRowHasItsTurnAcrossCalls) {
  TapAttributes attributes = Attributes();
  attributes.every = 3;
  const auto site = Site(attributes);
  ASSERT_THAT(Send(*site, {Floats({0, 1, 2, 3, 99}), Count(4)}), IsOk());
  ASSERT_THAT(Send(*site, {Floats({4, 5, 6, 7}), Count(4)}), IsOk());
  ASSERT_THAT(Send(*site, {Floats({8}), Count(1)}), IsOk());  // It is not this row's turn.
  ASSERT_THAT(Send(*site, {Floats({9, 10}), Count(2)}), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(Each(&SeenRow::sequence), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(callback_->stats().skips.load(), 7U);
  EXPECT_EQ(Statistics().records, 4U);
}

TEST_F(TapRowsTest, WithStepsEveryMeansTheStepsThatItDivides) {
  TapAttributes attributes = WithSteps(10);
  attributes.leaves = "x\nempty";
  const auto site = Site(attributes);
  const auto empty = [] { return TestBuffer::Zeros(DType::kFloat32, {4, 0}); };
  ASSERT_THAT(Send(*site, {Floats({0, 1, 2, 3}), empty(), Steps({7, 10, 20, 21}), Count(4)}), IsOk());
  ASSERT_THAT(Send(*site, {Floats({4, 5, 6, 7}), empty(), Steps({22, 23, 30, 40}), Count(3)}), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(1, 2, 6));
  EXPECT_THAT(Each(&SeenRow::step), ElementsAre(10, 20, 30));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(1, 0, 3));
  EXPECT_EQ(callback_->stats().skips.load(), 4U);
}

TEST_F(TapRowsTest, SampleIsTakenOfRowsAndTheirGapsAreKnown) {
  TapAttributes attributes = Attributes();
  attributes.sample_ppb = kAllPpb / 4;
  const auto site = Site(attributes);
  constexpr int kRows = 10'000;
  std::vector<float> values(kRows);
  for (int call = 0; call < 4; ++call) {
    std::iota(values.begin(), values.end(), static_cast<float>(call * kRows));
    ASSERT_THAT(Send(*site, {Floats(values), Count(kRows)}), IsOk());
  }
  Drain();
  EXPECT_NEAR(static_cast<double>(seen_.size()), kRows, 870);  // Ten standard deviations.
  const std::vector<float> sent = Values();
  float next = 0;
  for (size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(sent[i], next + static_cast<float>(seen_[i].skipped));
    next = sent[i] + 1;
  }
  EXPECT_EQ(callback_->stats().skips.load(), 4 * kRows - seen_.size());
}

TEST_F(TapRowsTest, IntervalLetsOneRowOfACallThrough) {
  TapAttributes attributes = Attributes();
  attributes.min_interval_ns = int64_t{1} << 50;
  const auto site = Site(attributes);
  ASSERT_THAT(Send(*site, {Floats({1, 2, 3}), Count(3)}), IsOk());
  ASSERT_THAT(Send(*site, {Floats({4}), Count(1)}), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(1));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(0));
  EXPECT_EQ(callback_->stats().skips.load(), 3U);
}

TEST_F(TapRowsTest, OnlyTheDeviceThatWasNamedSends) {
  TapAttributes attributes = Attributes();
  attributes.only_device = 1;
  const auto site = Site(attributes);
  for (const int32_t device : {0, 1}) {
    ASSERT_THAT(Send(*site, {Floats({1, 2}), Count(2)}, {.buffers = {}, .device_ordinal = device}), IsOk());
  }
  Drain();
  EXPECT_THAT(Each(&SeenRow::device_ordinal), ElementsAre(1, 1));
  EXPECT_EQ(callback_->stats().skips.load(), 0U);
}

// The program has left out records before those that it sends from a device.
TEST_F(TapRowsTest, WhatAProgramLeftOutUpstreamIsKnownToTheFirstRow) {
  const auto all = Site();
  ASSERT_THAT(Send(*all, {Floats({1, 2}), Count(2)}, {.buffers = {}, .skipped = 4}), IsOk());
  const auto some = Site(WithSteps(2));
  ASSERT_THAT(Send(*some, {Floats({3, 4, 5}), Steps({1, 2, 3}), Count(3)}, {.buffers = {}, .skipped = 5}), IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(4, 0, 6));
  ASSERT_THAT(Send(*some, {Floats({6}), Steps({5}), Count(1)}, {.buffers = {}, .skipped = 10}),
              IsOk());  // No row is sent.
  ASSERT_THAT(Send(*some, {Floats({7}), Steps({6}), Count(1)}, {.buffers = {}, .skipped = 20}), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(1, 2, 4, 7));
  EXPECT_EQ(seen_.back().skipped, 1U + 10U + 1U + 20U);
}

TEST_F(TapRowsTest, StatisticsCountRows) {
  const auto blocking = std::make_shared<BlockingCallback>("TapRowsTest.blocking");
  auto site = std::make_unique<TapSite>(blocking, Attributes());
  ASSERT_THAT(Send(*site, {Floats({1, 2, 3, 4}), Count(3)}), IsOk());
  ASSERT_THAT(Send(*site, {Floats({1, 2}), Count(2)}), IsOk());
  blocking->WaitUntilEntered(1);
  EXPECT_EQ(Statistics().records, 5U);
  EXPECT_EQ(Statistics().delivered, 0U);
  EXPECT_THAT(delivery_.Drain(steady_clock::now()), ElementsAre("5 records of the native queue of device 0"));
  blocking->Open();
  delivery_.Retire(std::move(site));
  Drain();
  EXPECT_EQ(Statistics().records, 5U);
  EXPECT_EQ(Statistics().delivered, 5U);
  EXPECT_EQ(blocking->entered(), 5);
}

TEST_F(TapRowsTest, ErrorOfOneRowIsCountedAndTheOthersAreDelivered) {
  const LogCapture log;
  callback_->on_deliver = [this](const Record& record) {
    Keep(record);
    return record.step == 5 ? InternalError("cannot") : OkStatus();
  };
  const auto site = Site(WithSteps());
  ASSERT_THAT(Send(*site, {Floats({1, 2, 3}), Steps({4, 5, 6}), Count(3)}), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(1, 2, 3));
  EXPECT_EQ(callback_->stats().errors.load(), 1U);
  const DeliveryErrorReport report = delivery_.TakeErrors();
  EXPECT_EQ(report.count, 1U);
  EXPECT_THAT(report.last, StatusIs(StatusCode::kInternal, "'TapRowsTest.f' failed on device 0: cannot"));
}

TEST_F(TapRowsTest, RowsThatDoNotFitInMemoryAreDroppedAndTheNextKnows) {
  const auto site = Site();
  TestBuffer small = TestBuffer::Zeros(DType::kUint8, {2});
  TestBuffer count = Count(8);
  callout_buffer views[] = {small.view(), count.view()};
  int64_t dims[] = {8, int64_t{1} << 60};
  views[0].rank = 2;
  views[0].dims = dims;
  views[0].size_bytes = uint64_t{1} << 63;
  EXPECT_THAT(delivery_.Push(*site, {.buffers = views}),
              StatusIs(StatusCode::kResourceExhausted, "cannot allocate 9223372036854775808 bytes"));
  Drain();
  EXPECT_EQ(callback_->stats().drops.load(), 8U);
  EXPECT_EQ(Statistics().delivered, Statistics().records);
  ASSERT_THAT(Send(*site, {Floats({1, 2}), Count(2)}), IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(8, 0));
  EXPECT_EQ(Statistics().delivered, Statistics().records);
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
}

TEST_F(TapRowsTest, OperandsThatDoNotFitAreRefused) {
  const auto refuses = [&](const TapAttributes& attributes, std::vector<TestBuffer> operands, const char* text) {
    TapAttributes labelled = attributes;
    labelled.label = "loss";
    const auto site = Site(labelled);
    EXPECT_THAT(Send(*site, std::move(operands)),
                StatusIs(StatusCode::kInvalidArgument, std::string("callout: tap 'loss': ") + text));
  };
  const auto rows = [] { return Floats({1, 2}); };
  TapAttributes with_offsets = Attributes();
  with_offsets.offsets = true;

  refuses(Attributes(), {}, "expected 2 operands (attributes `leaves`, `step`, `rows`, `turns`, `offsets`), got 0");
  refuses(Attributes(), {rows()}, "expected 2 operands");
  refuses(Attributes(), {rows(), rows(), Count(1)}, "expected 2 operands (attributes `leaves`, `step`, `rows`, `tu");
  refuses(WithSteps(), {rows(), Count(1)}, "expected 3 operands");
  refuses(with_offsets, {rows(), Count(1)}, "expected 3 operands");

  refuses(Attributes(), {rows(), rows()}, "expected the number of its rows, u32[] (attribute `rows`), got f32[2]");
  refuses(Attributes(), {rows(), TestBuffer::Scalar(int32_t{1})}, "expected the number of its rows, u32[] (attribute");
  refuses(Attributes(), {rows(), TestBuffer::Of<uint32_t>({1}, {1})},
          "expected the number of its rows, u32[] (attribute `rows`), got u32[1]");

  refuses(Attributes(), {rows(), Count(3)},
          "expected arrays of at least 3 rows, as many as the program filled (attribute `rows`), got f32[2]");
  refuses(Attributes(), {TestBuffer::Scalar(1.F), Count(0)}, "expected arrays of at least 0 rows");
  refuses(Attributes(), {rows(), Count(0xffffffff)}, "expected arrays of at least 4294967295 rows");
  refuses(WithSteps(), {rows(), Steps({1}), Count(2)}, "expected arrays of at least 2 rows");
  refuses(WithSteps(), {rows(), TestBuffer::Scalar(int32_t{1}), Count(1)}, "expected arrays of at least 1 rows");

  refuses(WithSteps(), {rows(), rows(), Count(2)},
          "expected the steps of its rows, integers, behind its leaves (attribute `step`), got f32[2]");

  refuses(Attributes(), {TestBuffer::Zeros(DType::kInt4, {4, 3}), Count(1)},
          "rows of s4[4,3] are not whole bytes, so they cannot be sent together (attribute `rows`)");
  refuses(Attributes(), {TestBuffer::Zeros(DType::kInt4, {4}), Count(1)}, "rows of s4[4] are not whole bytes");

  refuses(with_offsets, {rows(), Count(1), rows()},
          "expected its offsets, s64[1] or more, as the last operand (attribute `offsets`), got f32[2]");
  refuses(with_offsets, {TestBuffer::Zeros(DType::kFloat32, {2, 1}), Count(1), Steps({0})},
          "expected its offsets, s64[2] or more, as the last operand (attribute `offsets`), got s64[1]");
  refuses(with_offsets, {rows(), Count(1), TestBuffer::Of<int64_t>({1, 1}, {0})}, "expected its offsets, s64[1]");

  EXPECT_THAT(delivery_.QueueStatistics(), IsEmpty());
  EXPECT_EQ(callback_->stats().drops.load(), 0U);
}

// The smallest queue, which one record can fill.
class FullQueueOfRowsTest : public TapRowsTest {
 protected:
  FullQueueOfRowsTest() { EXPECT_THAT(delivery_.Configure({.queue_bytes = kMinQueueBytes}), IsOk()); }

  // Takes room with one record, which is being delivered until `blocking_` is opened.
  void Fill(int64_t bytes) {
    ASSERT_THAT(Send(*blocking_site_, {TestBuffer::Zeros(DType::kUint8, {bytes})}), IsOk());
    blocking_->WaitUntilEntered(1);
  }
  void Empty() {
    blocking_->Open();
    Drain();
  }

  // Two rows, together too large for what a record of this size leaves.
  static constexpr int64_t kMoreThanHalf = 9'000'000;
  static std::vector<TestBuffer> LargeRows(uint32_t count = 2) {
    return {TestBuffer::Zeros(DType::kUint8, {count, kMoreThanHalf / count}), Count(count)};
  }

  std::shared_ptr<BlockingCallback> blocking_ = std::make_shared<BlockingCallback>("blocking");
  std::unique_ptr<TapSite> blocking_site_ = MakeSite(blocking_);
};

TEST_F(FullQueueOfRowsTest, DropNewestDropsAllRowsAndTheNextKnows) {
  const auto site = Site(WithPolicy(OverflowPolicy::kDropNewest));
  Fill(kMoreThanHalf);
  bool queued = false;
  EXPECT_THAT(Send(*site, LargeRows(), {.buffers = {}, .queued = &queued}), IsOk());
  EXPECT_FALSE(queued);
  EXPECT_EQ(callback_->stats().drops.load(), 2U);
  Empty();
  EXPECT_THAT(seen_, IsEmpty());
  ASSERT_THAT(Send(*site, {Floats({1, 2}), Count(2)}), IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(2, 0));
  EXPECT_THAT(Each(&SeenRow::sequence), ElementsAre(2, 3));
}

// The throttle leaves out three of the six rows, and the full queue drops the other three.
TEST_F(FullQueueOfRowsTest, RowsThatWereLeftOutBeforeDroppedOnesAreKnownToTheNext) {
  const auto site = Site(WithPolicy(OverflowPolicy::kDropNewest, 2));
  Fill(12'000'000);
  EXPECT_THAT(Send(*site, LargeRows(6)), IsOk());
  EXPECT_EQ(callback_->stats().drops.load(), 3U);
  EXPECT_EQ(callback_->stats().skips.load(), 3U);
  Empty();
  ASSERT_THAT(Send(*site, {Floats({6, 7, 8}), Count(3)}), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(6, 8));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(6, 1));
}

TEST_F(FullQueueOfRowsTest, FailFailsTheProgramAndDropsAllRows) {
  const auto site = Site(WithPolicy(OverflowPolicy::kFail));
  Fill(kMoreThanHalf);
  EXPECT_THAT(Send(*site, LargeRows()),
              StatusIs(StatusCode::kResourceExhausted,
                       "the tap queue is full and the tap was made with on_full=\"fail\": no room for the 9000"));
  EXPECT_EQ(callback_->stats().drops.load(), 2U);
  Empty();
  ASSERT_THAT(Send(*site, {Floats({1}), Count(1)}), IsOk());
  Drain();
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(2));
}

TEST_F(FullQueueOfRowsTest, BlockWaitsForRoom) {
  const auto site = Site(WithPolicy(OverflowPolicy::kBlock));
  Fill(kMoreThanHalf);
  std::thread program([&] { EXPECT_THAT(Send(*site, LargeRows()), IsOk()); });
  SpinUntil([&] { return Statistics().blocked == 1; });
  EXPECT_EQ(Statistics().records, 1U);
  blocking_->Open();
  program.join();
  Drain();
  EXPECT_THAT(seen_, SizeIs(2));
  EXPECT_EQ(callback_->stats().drops.load(), 0U);
}

TEST_F(FullQueueOfRowsTest, ShutdownCountsRowsThatAreQueuedOrWait) {
  const auto site = Site();
  Fill(kMoreThanHalf);
  ASSERT_THAT(Send(*site, {Floats({1, 2, 3}), Count(3)}), IsOk());
  std::thread program([&] { EXPECT_THAT(Send(*site, LargeRows()), IsOk()); });
  SpinUntil([&] { return Statistics().blocked == 1; });
  // One record is inside its callback, three rows are queued, two wait for room.
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 6U);
  program.join();
  EXPECT_EQ(callback_->stats().drops.load(), 2U);
  blocking_->Open();
  SpinUntil([&] { return delivery_.RunningThreads() == 0; });
}

// A closed gate ends the worker's thread and leaves the records in their queue.
TEST_F(FullQueueOfRowsTest, ShutdownCountsAndFreesRowsThatNobodyDelivered) {
  delivery_.SetGate(Worker::kNative, {.enter = [] { return false; }});
  const auto site = Site();
  ASSERT_THAT(Send(*site, LargeRows(3)), IsOk());
  EXPECT_EQ(delivery_.Shutdown(steady_clock::now()), 3U);
  EXPECT_THAT(seen_, IsEmpty());
}

TEST_F(FullQueueOfRowsTest, RowsAfterShutdownAreCountedNotTaken) {
  const auto site = Site();
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
  EXPECT_THAT(Send(*site, {Floats({1, 2}), Count(2)}), IsOk());
  EXPECT_EQ(callback_->stats().drops.load(), 2U);
  EXPECT_EQ(delivery_.Shutdown(kForever), 2U);
}

// If the throttle were asked each time, the turn of the rows would change.
TEST_F(FullQueueOfRowsTest, SenderThatComesAgainAsksTheThrottleOnceAboutEachRow) {
  const auto site = Site(WithPolicy(OverflowPolicy::kBlock, 2));
  Fill(static_cast<int64_t>(kMinQueueBytes));
  const auto send = [&] {
    return Send(*site, {Floats({1, 2, 3}), Count(3)}, {.buffers = {}, .patience = Patience::kComesAgain});
  };
  for (int i = 0; i < 3; ++i) EXPECT_THAT(send(), StatusIs(StatusCode::kUnavailable, "the tap queue is full"));
  EXPECT_EQ(callback_->stats().skips.load(), 0U);
  EXPECT_EQ(callback_->stats().drops.load(), 0U);
  Empty();
  EXPECT_THAT(send(), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(1, 3));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(0, 1));
  EXPECT_EQ(callback_->stats().skips.load(), 1U);
}

// The throttle has been asked, so the rows are taken, and nobody waits.
TEST_F(FullQueueOfRowsTest, RowsOfASenderThatComesAgainMayExceedTheRoomThatIsLeft) {
  const auto site = Site(WithPolicy(OverflowPolicy::kBlock));
  Fill(kMoreThanHalf);
  EXPECT_THAT(Send(*site, LargeRows(), {.buffers = {}, .patience = Patience::kComesAgain}), IsOk());
  EXPECT_GT(Statistics().pending_bytes, kMinQueueBytes);
  EXPECT_EQ(Statistics().blocked, 0U);
  Empty();
  EXPECT_THAT(seen_, SizeIs(2));
}

TEST_F(FullQueueOfRowsTest, SenderThatComesAgainDropsOrFailsIfThePolicyIsNotToBlock) {
  const auto drops = Site(WithPolicy(OverflowPolicy::kDropNewest));
  const auto fails = Site(WithPolicy(OverflowPolicy::kFail));
  Fill(static_cast<int64_t>(kMinQueueBytes));
  const Sending again = {.buffers = {}, .patience = Patience::kComesAgain, .skipped = 0};
  EXPECT_THAT(Send(*drops, {Floats({1, 2}), Count(2)}, again), IsOk());
  EXPECT_THAT(Send(*fails, {Floats({1, 2}), Count(2)}, again), StatusIs(StatusCode::kResourceExhausted, "is full"));
  EXPECT_EQ(callback_->stats().drops.load(), 4U);
  Empty();
  for (TapSite* site : {drops.get(), fails.get()}) EXPECT_THAT(Send(*site, {Floats({3}), Count(1)}, again), IsOk());
  Drain();
  EXPECT_THAT(Values(), ElementsAre(3, 3));
  EXPECT_THAT(Each(&SeenRow::skipped), ElementsAre(2, 2));
}

TEST_F(FullQueueOfRowsTest, AfterShutdownRowsThatComeAgainAreLeftToTheirSender) {
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
  for (const auto policy : {OverflowPolicy::kBlock, OverflowPolicy::kDropNewest, OverflowPolicy::kFail}) {
    const auto site = Site(WithPolicy(policy, 2));
    EXPECT_THAT(Send(*site, {Floats({1, 2}), Count(2)}, {.buffers = {}, .patience = Patience::kComesAgain}),
                StatusIs(StatusCode::kUnavailable, "the tap queue is closed"));
  }
  EXPECT_EQ(callback_->stats().drops.load(), 0U);
  EXPECT_EQ(callback_->stats().skips.load(), 0U);
  EXPECT_EQ(delivery_.Shutdown(kForever), 0U);
}

}  // namespace
}  // namespace callout::internal
