// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/call_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class AliasesTest : public ::testing::Test {
 protected:
  AliasesTest() {
    call_.num_args = call_.num_results = 1;
    call_.args = operands_ + 1;
    call_.results = results_ + 1;
  }
  // Checks `pairs` against an operand s32[2] and a result s32[2].
  Status Check(const std::vector<int64_t>& pairs) {
    aliases_ = Aliases(pairs);
    return aliases_.Check(call_);
  }

  Aliases aliases_;
  TestBuffer operand_ = TestBuffer::Of<int32_t>({2}, {5, 6});
  TestBuffer result_ = TestBuffer::Of<int32_t>({2}, {0, 0});
  // The call's operand and result lie between others that would fit, so a wrong index would be found.
  callout_buffer operands_[3] = {operand_.view(), operand_.view(), operand_.view()};
  callout_buffer results_[3] = {result_.view(), result_.view(), result_.view()};
  callout_call call_ = {};
};

TEST_F(AliasesTest, OperandIsCopiedIntoOtherMemory) {
  ASSERT_THAT(Check({0, 0}), IsOk());
  EXPECT_FALSE(aliases_.empty());
  aliases_.Apply(call_);
  EXPECT_THAT(result_.values<int32_t>(), ElementsAre(5, 6));
}

TEST_F(AliasesTest, MemoryThatBothShareIsNotWritten) {
  static const int32_t kReadOnly[] = {5, 6};  // writing would end the process
  operands_[1].data = results_[1].data = const_cast<int32_t*>(kReadOnly);
  ASSERT_THAT(Check({0, 0}), IsOk());
  aliases_.Apply(call_);
}

TEST_F(AliasesTest, BuffersWithoutBytesNeedNoMemory) {
  operands_[1].size_bytes = results_[1].size_bytes = 0;
  operands_[1].data = nullptr;
  ASSERT_THAT(Check({0, 0}), IsOk());
  aliases_.Apply(call_);
}

TEST_F(AliasesTest, PairsMustExist) {
  for (const std::vector<int64_t>& pair : {std::vector<int64_t>{-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
    EXPECT_THAT(Check(pair), StatusIs(StatusCode::kInvalidArgument,
                                      "callout: operand " + std::to_string(pair[0]) + " and result " +
                                          std::to_string(pair[1]) + " of attribute 'aliases' do not fit each other"));
  }
}

TEST_F(AliasesTest, SizesMustBeTheSame) {
  operands_[1].size_bytes = 4;
  EXPECT_THAT(Check({0, 0}), StatusIs(StatusCode::kInvalidArgument, "do not fit each other"));
}

TEST_F(AliasesTest, NoneIsFine) {
  EXPECT_THAT(Check({}), IsOk());
  EXPECT_TRUE(aliases_.empty());
}

// A callback that updates its first result by adding its last operand.
class AliasedCallTest : public CallSiteTest {
 protected:
  void SetUp() override {
    CallSiteTest::SetUp();
    callback_ = Bind();
    callback_->on_call = [this](const callout_call& call) {
      ++calls_;
      const callout_buffer& updated = call.results[0];
      for (uint64_t i = 0; i < updated.size_bytes / sizeof(int32_t); ++i) {
        static_cast<int32_t*>(updated.data)[i] += *static_cast<const int32_t*>(call.args[call.num_args - 1].data);
      }
      return OkStatus();
    };
  }
  void TearDown() override {
    callback_.reset();
    CallSiteTest::TearDown();
  }
  // Runs the call on this thread. `in_place`: the result is in the memory of the first operand.
  Status Run(FrameBuilder& frame, bool in_place = false) {
    const auto site = NewSite();
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    if (!in_place) return site->Execute(frame);
    XLA_FFI_CallFrame* const raw = site->Frame(frame, XLA_FFI_ExecutionStage_EXECUTE);
    static_cast<XLA_FFI_Buffer*>(raw->rets.rets[0])->data = static_cast<XLA_FFI_Buffer*>(raw->args.args[0])->data;
    return TakeError(callout_v1_call_execute(raw));
  }

  std::shared_ptr<FakeCallback> callback_;
  int calls_ = 0;
};

TEST_P(AliasedCallTest, ResultHoldsTheOperandWhichStaysAsItWas) {
  FrameBuilder frame = Frame();
  frame.Int64ArrayAttr("aliases", {0, 0});
  frame.Arg(TestBuffer::Of<int32_t>({2}, {5, 6})).Arg(TestBuffer::Scalar(int32_t{10})).Ret(DType::kInt32, {2});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(frame.ret(0).values<int32_t>(), ElementsAre(15, 16));
  EXPECT_THAT(frame.arg(0).values<int32_t>(), ElementsAre(5, 6));
}

TEST_P(AliasedCallTest, ResultInTheOperandsPlaceIsUpdatedThere) {
  FrameBuilder frame = Frame();
  frame.Int64ArrayAttr("aliases", {0, 0});
  frame.Arg(TestBuffer::Of<int32_t>({2}, {5, 6})).Arg(TestBuffer::Scalar(int32_t{10})).Ret(DType::kInt32, {2});
  ASSERT_THAT(Run(frame, /*in_place=*/true), IsOk());
  EXPECT_THAT(frame.arg(0).values<int32_t>(), ElementsAre(15, 16));
}

TEST_P(AliasedCallTest, PairThatDoesNotFitFailsTheCall) {
  FrameBuilder frame = Frame();
  frame.Int64ArrayAttr("aliases", {0, 0}).Arg(TestBuffer::Of<int32_t>({2}, {5, 6})).Ret(DType::kInt32, {3});
  EXPECT_THAT(Run(frame), StatusIs(StatusCode::kInvalidArgument, "operand 0 and result 0 of attribute 'aliases'"));
  EXPECT_EQ(calls_, 0);
}

TEST_P(AliasedCallTest, HalfAPairFailsTheLoad) {
  FrameBuilder frame = Frame();
  frame.Int64ArrayAttr("aliases", {0});
  EXPECT_THAT(NewSite()->Instantiate(frame), StatusIs(StatusCode::kInvalidArgument, "must be pairs"));
}

TEST_P(AliasedCallTest, EveryLaneUpdatesACopyOfAnOperandThatIsNotBatched) {
  FrameBuilder frame = LaneFrame({3}, {0, 1});
  frame.Int64ArrayAttr("aliases", {0, 0});
  frame.Arg(TestBuffer::Of<int32_t>({2}, {5, 6})).Arg(TestBuffer::Of<int32_t>({3}, {10, 20, 30}));
  frame.Ret(DType::kInt32, {3, 2});
  ASSERT_THAT(Run(frame), IsOk());
  EXPECT_THAT(frame.ret(0).values<int32_t>(), ElementsAre(15, 16, 25, 26, 35, 36));
  EXPECT_THAT(frame.arg(0).values<int32_t>(), ElementsAre(5, 6));
}

TEST_P(AliasedCallTest, EveryLaneUpdatesItsPartOfABatchedOperand) {
  for (const bool in_place : {false, true}) {
    FrameBuilder frame = LaneFrame({2}, {1, 1});
    frame.Int64ArrayAttr("aliases", {0, 0});
    frame.Arg(TestBuffer::Of<int32_t>({2, 2}, {1, 2, 3, 4})).Arg(TestBuffer::Of<int32_t>({2}, {10, 20}));
    frame.Ret(DType::kInt32, {2, 2});
    ASSERT_THAT(Run(frame, in_place), IsOk());
    EXPECT_THAT((in_place ? frame.arg(0) : frame.ret(0)).values<int32_t>(), ElementsAre(11, 12, 23, 24));
  }
}

TEST_P(AliasedCallTest, PairThatDoesNotFitInALaneFailsTheCall) {
  FrameBuilder frame = LaneFrame({2}, {0});
  frame.Int64ArrayAttr("aliases", {0, 0}).Arg(TestBuffer::Of<int32_t>({2}, {1, 2})).Ret(DType::kInt32, {2});
  EXPECT_THAT(Run(frame), StatusIs(StatusCode::kInvalidArgument, "do not fit each other"));
  EXPECT_EQ(calls_, 0);
}

TEST_P(AliasedCallTest, EmptyBatchHasNothingToUpdate) {
  FrameBuilder frame = LaneFrame({0}, {0});
  frame.Int64ArrayAttr("aliases", {0, 0}).Arg(TestBuffer::Of<int32_t>({2}, {5, 6})).Ret(DType::kInt32, {0, 2});
  EXPECT_THAT(Run(frame), IsOk());
  EXPECT_EQ(calls_, 0);
}

INSTANTIATE_TEST_SUITE_P(Minors, AliasedCallTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
