// SPDX-License-Identifier: Apache-2.0
#include "core/frame/call_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "callout/dtype.h"
#include "testing/fake_runtime.h"
#include "testing/frame_builder.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

// Builds attributes in XLA's layout.
class AttributesTest : public ::testing::Test {
 protected:
  void Add(const char* name, XLA_FFI_AttrType type, void* value) {
    names_.push_back({name, std::strlen(name)});
    types_.push_back(type);
    values_.push_back(value);
  }
  /// Decodes the added attributes.
  Status Decode() {
    for (XLA_FFI_ByteSpan& name : names_) name_pointers_.push_back(&name);
    inner_ = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr,       static_cast<int64_t>(types_.size()), types_.data(),
              name_pointers_.data(),     values_.data()};
    return attributes_.Decode(&inner_);
  }

  Attributes attributes_;

 private:
  std::vector<XLA_FFI_ByteSpan> names_;
  std::vector<XLA_FFI_ByteSpan*> name_pointers_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<void*> values_;
  XLA_FFI_Attrs inner_{};
};

TEST_F(AttributesTest, ScalarsArraysAndStringsAreCopiedAndSorted) {
  float number = 2.5F;
  XLA_FFI_Scalar scalar = {XLA_FFI_DataType_F32, &number};
  int64_t numbers[] = {4, 5, 6};
  XLA_FFI_Array array = {XLA_FFI_DataType_S64, 3, numbers};
  XLA_FFI_ByteSpan text = {"hello", 5};
  Add("scale", XLA_FFI_AttrType_SCALAR, &scalar);
  Add("name", XLA_FFI_AttrType_STRING, &text);
  Add("axes", XLA_FFI_AttrType_ARRAY, &array);
  ASSERT_THAT(Decode(), IsOk());
  number = 0;
  numbers[1] = 0;
  const auto view = attributes_.view();
  ASSERT_EQ(view.size(), 3U);
  EXPECT_STREQ(view[0].name, "axes");
  EXPECT_EQ(view[0].kind, static_cast<uint32_t>(CALLOUT_ATTRIBUTE_ARRAY));
  EXPECT_EQ(view[0].count, 3U);
  EXPECT_EQ(static_cast<const int64_t*>(view[0].data)[1], 5);
  EXPECT_STREQ(view[1].name, "name");
  EXPECT_STREQ(static_cast<const char*>(view[1].data), "hello");
  EXPECT_EQ(view[1].count, 5U);
  EXPECT_STREQ(view[2].name, "scale");
  EXPECT_EQ(view[2].dtype, static_cast<uint32_t>(DType::kFloat32));
  EXPECT_EQ(*static_cast<const float*>(view[2].data), 2.5F);
}

TEST_F(AttributesTest, ValuesAreAlignedForTheirType) {
  double number = 1;
  XLA_FFI_Scalar scalar = {XLA_FFI_DataType_F64, &number};
  for (const char* name : {"a", "b", "c", "d"}) Add(name, XLA_FFI_AttrType_SCALAR, &scalar);
  ASSERT_THAT(Decode(), IsOk());
  for (const callout_attribute& attribute : attributes_.view()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(attribute.data) % 16, 0U);
  }
}

TEST_F(AttributesTest, NestedDictionariesAreRefused) {
  XLA_FFI_Attrs nested = {};
  Add("deep", XLA_FFI_AttrType_DICTIONARY, &nested);
  EXPECT_THAT(Decode(),
              StatusIs(StatusCode::kInvalidArgument, "attribute 'deep' must be a number, an array or a string"));
}

TEST_F(AttributesTest, NoneIsFine) {
  EXPECT_THAT(attributes_.Decode(nullptr), IsOk());
  EXPECT_TRUE(attributes_.view().empty());
}

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
  // XLA has no element type 14, although it has larger numbers. kDTypeLimit is one more than the largest number.
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
