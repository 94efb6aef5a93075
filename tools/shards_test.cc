// SPDX-License-Identifier: Apache-2.0
#include "shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arguments.h"
#include "array_spec.h"
#include "testing/status_matchers.h"

namespace callout::tools {
namespace {

using internal::IsOk;
using internal::StatusIs;

Array Spec(const std::string& text) { return ParseSpec(text).value(); }

// Returns an s8 array whose part on each device has the shape `dims`.
pjrt::ProgramArray Sharded(std::vector<int64_t> dims, std::vector<int64_t> tiles,
                           std::vector<std::vector<int64_t>> parts) {
  return {{DType::kInt8, std::move(dims)}, {std::move(tiles), std::move(parts)}};
}

TEST(ShardsTest, CutAlongTheLastDimension) {
  const pjrt::ProgramArray array = Sharded({2, 2}, {1, 2}, {{0, 1}, {0, 0}});
  const Array whole = Spec("s8[2,4]=0,1,2,3,4,5,6,7");
  EXPECT_EQ(ShardOf(whole, array, 0).bytes, Spec("s8[2,2]=2,3,6,7").bytes);
  EXPECT_EQ(ShardOf(whole, array, 1).bytes, Spec("s8[2,2]=0,1,4,5").bytes);
  EXPECT_EQ(Assemble({ShardOf(whole, array, 0), ShardOf(whole, array, 1)}, array).bytes, whole.bytes);
}

TEST(ShardsTest, CutInTwoDirectionsOfThree) {
  const pjrt::ProgramArray array = Sharded({1, 2, 1}, {2, 1, 2}, {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}});
  const Array whole = Spec("s8[2,2,2]=0,1,2,3,4,5,6,7");
  EXPECT_EQ(ShardOf(whole, array, 1).bytes, Spec("s8[1,2,1]=1,3").bytes);
  EXPECT_EQ(ShardOf(whole, array, 2).bytes, Spec("s8[1,2,1]=4,6").bytes);
  std::vector<Array> shards;
  for (size_t device = 0; device < 4; ++device) shards.push_back(ShardOf(whole, array, device));
  const Array assembled = Assemble(shards, array);
  EXPECT_EQ(assembled.type, whole.type);
  EXPECT_EQ(assembled.bytes, whole.bytes);
}

TEST(ShardsTest, AReplicatedArrayIsWholeEverywhere) {
  const pjrt::ProgramArray array = Sharded({}, {}, {{}, {}});
  const Array whole = Spec("s8[]=7");
  EXPECT_EQ(ShardOf(whole, array, 1).bytes, whole.bytes);
  EXPECT_EQ(Assemble({whole, whole}, array).bytes, whole.bytes);
}

TEST(ArgumentsTest, MustBeWhatTheProgramTakes) {
  const std::vector<pjrt::ArrayType> expected = {{DType::kFloat32, {2}}, {DType::kInt32, {}}};
  ArraySource source;
  const auto arrays = ReadArguments({"f32[2]=1,2", "s32[]=3"}, expected, source);
  ASSERT_THAT(arrays, IsOk());
  EXPECT_EQ(arrays->size(), 2U);
  EXPECT_THAT(ReadArguments({"f32[2]=1,2"}, expected, source),
              StatusIs(StatusCode::kInvalidArgument,
                       "takes 2 arguments (f32[2], s32[]), got 1; for example --arg 's32[]=random:0'"));
  EXPECT_THAT(ReadArguments({"f32[2]=1", "s32[]=3", "f32[4000000000000]=3"}, expected, source),
              StatusIs(StatusCode::kInvalidArgument, "got 3; arguments that it does not use are not among them"));
  EXPECT_THAT(ReadArguments({"f32[2]=1", "s32[]=3", "s32[]=3"}, expected, source),
              StatusIs(StatusCode::kInvalidArgument, "got 3"));
  EXPECT_THAT(
      ReadArguments({"f32[3]=1", "s32[]=3"}, expected, source),
      StatusIs(StatusCode::kInvalidArgument, "argument 0 of the program is f32[2], got f32[3] from 'f32[3]=1'"));
  // The error comes before any element is allocated.
  EXPECT_THAT(ReadArguments({"f32[4000000000000]=1", "s32[]=3"}, expected, source),
              StatusIs(StatusCode::kInvalidArgument, "argument 0 of the program is f32[2]"));
  EXPECT_THAT(ReadArguments({::testing::TempDir()}, expected, source),
              StatusIs(StatusCode::kNotFound, "Is a directory"));
  EXPECT_THAT(ReadArguments({"/no/such.npy"}, expected, source), StatusIs(StatusCode::kNotFound, "'/no/such.npy'"));
  EXPECT_THAT(ReadArguments({}, {}, source), IsOk());
}

}  // namespace
}  // namespace callout::tools
