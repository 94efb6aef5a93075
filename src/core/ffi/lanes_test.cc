// SPDX-License-Identifier: Apache-2.0
//
// The operands of a call's lanes, and the threads on which the lanes run. lane_errors_test.cc tests lanes that fail.
#include "core/ffi/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <set>
#include <thread>

#include "core/base/thread_annotations.h"
#include "core/frame/buffer.h"
#include "testing/call_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Returns "s32[2]{5,6}" for an operand of 32-bit integers.
std::string Describe(const callout_buffer& buffer) {
  const auto elements = static_cast<size_t>(ElementCount(buffer));
  EXPECT_EQ(buffer.size_bytes, elements * sizeof(int32_t));
  std::string text = ShapeString(buffer) + "{";
  const auto* const data = static_cast<const int32_t*>(buffer.data);
  for (size_t i = 0; i < elements; ++i) text += (i > 0 ? "," : "") + std::to_string(data[i]);
  return text + "}";
}

// Writes the sum of the operands, each of which has one element or as many as the result.
void Add(const callout_call& call) {
  auto* const sum = static_cast<int32_t*>(call.results[0].data);
  for (int64_t i = 0; i < ElementCount(call.results[0]); ++i) {
    sum[i] = 0;
    for (uint32_t k = 0; k < call.num_args; ++k) {
      sum[i] += static_cast<const int32_t*>(call.args[k].data)[ElementCount(call.args[k]) == 1 ? 0 : i];
    }
  }
}

TestBuffer Ints(std::vector<int64_t> dims, const std::vector<int32_t>& values) {
  return TestBuffer::Of<int32_t>(std::move(dims), values);
}

class LanesTest : public CallSiteTest {
 protected:
  void SetUp() override {
    CallSiteTest::SetUp();
    callback_ = Bind();
    site_ = NewSite();
    callback_->on_call = [this](const callout_call& call) {
      std::string text;
      for (uint32_t i = 0; i < call.num_args; ++i) text += Describe(call.args[i]) + " ";
      text += "-> " + ShapeString(call.results[0]);
      Add(call);
      MutexLock lock(mutex_);
      calls_.push_back(text);
      threads_.insert(std::this_thread::get_id());
      return OkStatus();
    };
    site_->pool_threads = 2;
  }
  void TearDown() override {
    site_.reset();
    callback_.reset();
    CallSiteTest::TearDown();
  }

  Status Run(FrameBuilder& frame) {
    CALLOUT_RETURN_IF_ERROR(site_->Instantiate(frame));
    return site_->Execute(frame);
  }
  // Returns a batch of `count` lanes, each of which adds 1 to its number.
  static FrameBuilder Increment(int32_t count) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    FrameBuilder frame = LaneFrame({count}, {1, 0});
    frame.Arg(Ints({count}, values)).Arg(Ints({}, {1})).Ret(DType::kInt32, {count});
    return frame;
  }
  static std::vector<int32_t> Incremented(int32_t count) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 1);
    return values;
  }
  std::vector<std::string> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }
  std::set<std::thread::id> threads() {
    MutexLock lock(mutex_);
    return threads_;
  }

  std::shared_ptr<FakeCallback> callback_;
  std::unique_ptr<FakeSite> site_;

 private:
  Mutex mutex_;
  std::vector<std::string> calls_ CALLOUT_GUARDED_BY(mutex_);
  std::set<std::thread::id> threads_ CALLOUT_GUARDED_BY(mutex_);
};

TEST_P(LanesTest, EveryLaneGetsItsPart) {
  FrameBuilder frame = LaneFrame({3}, {1});
  frame.Arg(Ints({3, 2}, {1, 2, 3, 4, 5, 6})).Ret(DType::kInt32, {3, 2});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(), UnorderedElementsAre("s32[2]{1,2} -> s32[2]", "s32[2]{3,4} -> s32[2]", "s32[2]{5,6} -> s32[2]"));
  EXPECT_THAT(frame.ret(0).values<int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(LanesTest, LaneOfNumbersIsAScalar) {
  FrameBuilder frame = LaneFrame({3}, {1});
  frame.Arg(Ints({3}, {4, 5, 6})).Ret(DType::kInt32, {3});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(), UnorderedElementsAre("s32[]{4} -> s32[]", "s32[]{5} -> s32[]", "s32[]{6} -> s32[]"));
  EXPECT_THAT(frame.ret(0).values<int32_t>(), ElementsAre(4, 5, 6));
}

TEST_P(LanesTest, OperandThatIsNotBatchedIsWholeInEveryLane) {
  FrameBuilder frame = LaneFrame({2}, {0, 1});
  frame.Arg(Ints({2}, {10, 20})).Arg(Ints({2, 2}, {1, 2, 3, 4})).Ret(DType::kInt32, {2, 2});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(),
              UnorderedElementsAre("s32[2]{10,20} s32[2]{1,2} -> s32[2]", "s32[2]{10,20} s32[2]{3,4} -> s32[2]"));
  EXPECT_THAT(frame.ret(0).values<int32_t>(), ElementsAre(11, 22, 13, 24));
}

TEST_P(LanesTest, NestedBatchesMeetAsTheirMasksSay) {
  FrameBuilder frame = LaneFrame({2, 3}, {0b11, 0b01, 0b10, 0});
  frame.Arg(Ints({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  frame.Arg(Ints({2}, {100, 200})).Arg(Ints({3, 2}, {10, 11, 20, 21, 30, 31})).Arg(Ints({}, {1000}));
  frame.Ret(DType::kInt32, {2, 3, 2});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(), UnorderedElementsAre("s32[2]{0,1} s32[]{100} s32[2]{10,11} s32[]{1000} -> s32[2]",
                                            "s32[2]{2,3} s32[]{100} s32[2]{20,21} s32[]{1000} -> s32[2]",
                                            "s32[2]{4,5} s32[]{100} s32[2]{30,31} s32[]{1000} -> s32[2]",
                                            "s32[2]{6,7} s32[]{200} s32[2]{10,11} s32[]{1000} -> s32[2]",
                                            "s32[2]{8,9} s32[]{200} s32[2]{20,21} s32[]{1000} -> s32[2]",
                                            "s32[2]{10,11} s32[]{200} s32[2]{30,31} s32[]{1000} -> s32[2]"));
  EXPECT_THAT(frame.ret(0).values<int32_t>(),
              ElementsAre(1110, 1112, 1122, 1124, 1134, 1136, 1216, 1218, 1228, 1230, 1240, 1242));
}

TEST_P(LanesTest, EmptyBatchCallsNobody) {
  FrameBuilder frame = LaneFrame({3, 0}, {0b11, 0b01, 0});
  frame.Arg(Ints({3, 0, 2}, {})).Arg(Ints({3}, {1, 2, 3})).Arg(Ints({}, {7})).Ret(DType::kInt32, {3, 0, 2});
  EXPECT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_P(LanesTest, LanesWithoutElementsAreCalled) {
  FrameBuilder frame = LaneFrame({2}, {1});
  frame.Arg(Ints({2, 0}, {})).Ret(DType::kInt32, {2, 0});
  EXPECT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(), ElementsAre("s32[0]{} -> s32[0]", "s32[0]{} -> s32[0]"));
}

TEST_P(LanesTest, TokenAndStatusAreNoOperandsOfALane) {
  FrameBuilder frame = LaneFrame({2}, {1});
  frame.Int64Attr("threaded", 1).Int64Attr("deferred", 1);
  frame.Arg(TestBuffer::Scalar(uint32_t{9})).Arg(Ints({2}, {5, 6}));
  frame.Ret(DType::kUint32, {}).Ret(DType::kInt32, {2}).Ret(DType::kInt32, {});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(calls(), UnorderedElementsAre("s32[]{5} -> s32[]", "s32[]{6} -> s32[]"));
  EXPECT_EQ(frame.ret(0).values<uint32_t>()[0], 9U);
  EXPECT_THAT(frame.ret(1).values<int32_t>(), ElementsAre(5, 6));
  EXPECT_EQ(frame.ret(2).values<int32_t>()[0], 0);
}

TEST_P(LanesTest, EveryLaneIsACallOfItsSite) {
  const uint64_t calls_before = callback_->stats().calls();
  callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.struct_size, sizeof(callout_call));
    EXPECT_EQ(call.device_ordinal, 3);
    EXPECT_EQ(call.run_id, 44);
    EXPECT_NE(call.error_context, nullptr);
    if (call.num_attributes != 1) return InternalError("attributes are missing");
    EXPECT_STREQ(static_cast<const char*>(call.attributes[0].data), "fast");
    return OkStatus();
  };
  site_->device_ordinal = 3;
  site_->run_id = 44;
  FrameBuilder frame = Increment(10);
  frame.DictionaryAttr("attributes", {{"mode", "fast"}});
  EXPECT_THAT(Run(frame), IsOk());
  EXPECT_EQ(callback_->stats().calls(), calls_before + 10);
}

TEST_P(LanesTest, ManyLanesAreCalledOnceEach) {
  site_->pool_threads = 4;
  FrameBuilder frame = Increment(1000);
  ASSERT_THAT(Run(frame), IsOk());
  const auto seen = calls();
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 1000U);
  EXPECT_EQ(frame.ret(0).values<int32_t>(), Incremented(1000));
  EXPECT_EQ(site_->scheduled(), 3);
}

TEST_P(LanesTest, MoreThreadsThanLanesAreNotAsked) {
  site_->pool_threads = 8;
  FrameBuilder frame = Increment(2);
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_EQ(site_->scheduled(), 1);
  EXPECT_EQ(frame.ret(0).values<int32_t>(), Incremented(2));
}

TEST_P(LanesTest, LanesRunAtOnce) {
  site_->pool_threads = 4;
  std::latch all(4);
  callback_->on_call = [&](const callout_call& call) {
    all.arrive_and_wait();  // hangs if one lane waits for another
    Add(call);
    return OkStatus();
  };
  FrameBuilder frame = Increment(4);
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<int32_t>(), Incremented(4));
}

TEST_P(LanesTest, WithoutAPoolTheCallerRunsThemAll) {
  site_->pool_threads.reset();
  FrameBuilder frame = Increment(20);
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_EQ(calls().size(), 20U);
  EXPECT_THAT(threads(), ElementsAre(std::this_thread::get_id()));
  EXPECT_EQ(frame.ret(0).values<int32_t>(), Incremented(20));
}

TEST_P(LanesTest, PoolThatRefusesOrRunsInPlaceIsNoError) {
  site_->pool_threads = 4;
  for (const PoolMode mode : {PoolMode::kRefuse, PoolMode::kInline}) {
    site_ = NewSite();
    site_->pool_threads = 4;
    site_->pool_mode = mode;
    FrameBuilder frame = Increment(20);
    ASSERT_THAT(Run(frame), IsOk());
    EXPECT_EQ(frame.ret(0).values<int32_t>(), Incremented(20));
  }
  EXPECT_EQ(calls().size(), 40U);
  EXPECT_THAT(threads(), ElementsAre(std::this_thread::get_id()));
}

// XLA's pool may be busy until the call, its buffers and its executable are gone.
TEST_P(LanesTest, TasksThatComeLateFindNothingToDo) {
  site_->pool_threads = 4;
  site_->pool_mode = PoolMode::kLate;
  auto frame = std::make_unique<FrameBuilder>(Increment(6));
  ASSERT_THAT(Run(*frame), IsOk());
  EXPECT_EQ(frame->ret(0).values<int32_t>(), Incremented(6));
  const auto tasks = site_->TakeTasks();
  EXPECT_EQ(tasks.size(), 3U);
  frame.reset();
  site_.reset();
  callback_.reset();
  for (const auto& task : tasks) task();
  EXPECT_EQ(calls().size(), 6U);
}

TEST_P(LanesTest, ThreadsThatComeLateFindNothingToDo) {
  constexpr int kRuns = 50;
  site_->pool_threads = 3;
  FrameBuilder program = Increment(3);
  ASSERT_THAT(site_->Instantiate(program), IsOk());
  for (int run = 0; run < kRuns; ++run) {
    FrameBuilder frame = Increment(3);
    ASSERT_THAT(site_->Execute(frame), IsOk());
    ASSERT_EQ(frame.ret(0).values<int32_t>(), Incremented(3));
  }
  site_.reset();
  callback_.reset();
  EXPECT_EQ(calls().size(), 3U * kRuns);
}

INSTANTIATE_TEST_SUITE_P(Minors, LanesTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
