// SPDX-License-Identifier: Apache-2.0
#include "core/frame/call_frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing/fake_runtime.h"
#include "testing/frame_builder.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

class CallFrameTest : public ::testing::Test {
 protected:
  std::vector<callout_buffer> Args() {
    const auto* frame = site_.Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE);
    std::vector<callout_buffer> out(static_cast<size_t>(frame->args.size));
    std::span<const callout_buffer> decoded;
    EXPECT_TRUE(DecodeArgs(frame->args, out.data(), decoded).ok());
    out.resize(decoded.size());
    return out;
  }
  std::vector<callout_buffer> Rets() {
    const auto* frame = site_.Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE);
    std::vector<callout_buffer> out(static_cast<size_t>(frame->rets.size));
    std::span<const callout_buffer> decoded;
    EXPECT_TRUE(DecodeRets(frame->rets, out.data(), decoded).ok());
    out.resize(decoded.size());
    return out;
  }

  FrameBuilder builder_;
  FakeSite site_{FakeRuntime::ForMinor(3), nullptr, nullptr};
};

TEST_F(CallFrameTest, ArgumentsAreViewsOfXlasMemory) {
  builder_.Arg(TestBuffer::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto args = Args();
  ASSERT_EQ(args.size(), 1U);
  EXPECT_EQ(args[0].dtype, static_cast<uint32_t>(DType::kFloat32));
  ASSERT_EQ(args[0].rank, 2U);
  EXPECT_EQ(args[0].dims[0], 2);
  EXPECT_EQ(args[0].dims[1], 3);
  EXPECT_EQ(args[0].size_bytes, 24U);
  EXPECT_EQ(args[0].data, builder_.arg(0).bytes().data());
}

TEST_F(CallFrameTest, TokensAreLeftOut) {
  builder_.TokenArg().Arg(TestBuffer::Scalar(1)).TokenArg().Arg(TestBuffer::Scalar(2.0)).TokenArg();
  builder_.TokenRet().Ret(DType::kUint8, {3}).TokenRet();
  const auto args = Args();
  ASSERT_EQ(args.size(), 2U);
  EXPECT_EQ(*static_cast<const int*>(args[0].data), 1);
  EXPECT_EQ(*static_cast<const double*>(args[1].data), 2.0);
  const auto rets = Rets();
  ASSERT_EQ(rets.size(), 1U);
  EXPECT_EQ(rets[0].size_bytes, 3U);
}

TEST_F(CallFrameTest, OnlyTokensGiveNothing) {
  builder_.TokenArg().TokenRet();
  EXPECT_TRUE(Args().empty());
  EXPECT_TRUE(Rets().empty());
}

TEST_F(CallFrameTest, NoBuffersGiveNothing) {
  EXPECT_TRUE(Args().empty());
  EXPECT_TRUE(Rets().empty());
}

TEST_F(CallFrameTest, ScalarsHaveRankZeroAndOneElement) {
  builder_.Arg(TestBuffer::Scalar(int64_t{5}));
  const auto args = Args();
  ASSERT_EQ(args.size(), 1U);
  EXPECT_EQ(args[0].rank, 0U);
  EXPECT_EQ(args[0].size_bytes, 8U);
}

TEST_F(CallFrameTest, EmptyArraysHaveNoBytes) {
  builder_.Arg(TestBuffer::Zeros(DType::kFloat32, {4, 0, 2}));
  const auto args = Args();
  ASSERT_EQ(args.size(), 1U);
  EXPECT_EQ(args[0].rank, 3U);
  EXPECT_EQ(args[0].size_bytes, 0U);
}

TEST_F(CallFrameTest, SubByteArraysHavePackedSize) {
  builder_.Arg(TestBuffer::Zeros(DType::kInt4, {5})).Arg(TestBuffer::Zeros(DType::kUint2, {3, 3}));
  const auto args = Args();
  ASSERT_EQ(args.size(), 2U);
  EXPECT_EQ(args[0].size_bytes, 3U);
  EXPECT_EQ(args[1].size_bytes, 3U);
}

TEST_F(CallFrameTest, ManyArgumentsKeepTheirOrder) {
  for (int i = 0; i < 40; ++i) builder_.Arg(TestBuffer::Scalar(i));
  const auto args = Args();
  ASSERT_EQ(args.size(), 40U);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(*static_cast<const int*>(args[static_cast<size_t>(i)].data), i);
}

TEST_F(CallFrameTest, UnknownElementTypesAreErrorsAndNotRead) {
  // A gap between XLA's numbers, and one more than the largest.
  for (const uint32_t number : {14U, kDTypeLimit}) {
    FrameBuilder builder;
    builder.Arg(TestBuffer::Scalar(1)).Arg(TestBuffer(static_cast<DType>(number), {2}, {1, 2}));
    builder.Ret(static_cast<DType>(number), {});
    const auto* frame = site_.Frame(builder, XLA_FFI_ExecutionStage_EXECUTE);
    callout_buffer out[2];
    std::span<const callout_buffer> decoded;
    EXPECT_THAT(DecodeArgs(frame->args, out, decoded),
                StatusIs(StatusCode::kInvalidArgument, "operand 1 has element type " + std::to_string(number)));
    EXPECT_THAT(DecodeRets(frame->rets, out, decoded),
                StatusIs(StatusCode::kInvalidArgument, "result 0 has element type " + std::to_string(number)));
    EXPECT_TRUE(decoded.empty());
  }
}

}  // namespace
}  // namespace callout::internal
