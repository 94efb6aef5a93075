// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "callout/elements.h"

namespace callout {
namespace {

using ::testing::ElementsAre;

std::vector<int> UnpackSigned(DType dtype, const std::vector<uint8_t>& packed, int64_t elements) {
  std::vector<uint8_t> out(static_cast<size_t>(elements));
  Unpack(dtype, packed.data(), elements, out.data());
  std::vector<int> values;
  for (const uint8_t byte : out) values.push_back(static_cast<int8_t>(byte));
  return values;
}

std::vector<int> PackToInts(DType dtype, const std::vector<uint8_t>& in) {
  std::vector<uint8_t> packed(PackedBytes(dtype, static_cast<int64_t>(in.size())), 0xff);
  Pack(dtype, in.data(), static_cast<int64_t>(in.size()), packed.data());
  return {packed.begin(), packed.end()};
}

TEST(SubByteTest, KnowsWhichTypesArePacked) {
  for (const DType dtype :
       {DType::kInt1, DType::kInt2, DType::kInt4, DType::kUint1, DType::kUint2, DType::kUint4, DType::kFloat4E2M1Fn}) {
    EXPECT_TRUE(IsSubByte(dtype)) << ShortName(dtype);
  }
  for (const DType dtype : {DType::kBool, DType::kInt8, DType::kFloat8E5M2, DType::kToken, DType::kInvalid}) {
    EXPECT_FALSE(IsSubByte(dtype)) << ShortName(dtype);
  }
}

TEST(SubByteTest, LowBitsComeFirst) {
  EXPECT_THAT(UnpackSigned(DType::kUint4, {0x21, 0x43}, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(UnpackSigned(DType::kUint2, {0b11'10'01'00}, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(UnpackSigned(DType::kUint1, {0b0000'0101}, 8), ElementsAre(1, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(PackToInts(DType::kUint4, {1, 2, 3, 4}), ElementsAre(0x21, 0x43));
  EXPECT_THAT(PackToInts(DType::kUint2, {0, 1, 2, 3}), ElementsAre(0b11'10'01'00));
  EXPECT_THAT(PackToInts(DType::kUint1, {1, 0, 1}), ElementsAre(0b101));
}

TEST(SubByteTest, SignedIntegersAreSignExtended) {
  EXPECT_THAT(UnpackSigned(DType::kInt4, {0x8f, 0x70}, 4), ElementsAre(-1, -8, 0, 7));
  EXPECT_THAT(UnpackSigned(DType::kInt2, {0b10'11'01'00}, 4), ElementsAre(0, 1, -1, -2));
  EXPECT_THAT(UnpackSigned(DType::kInt1, {0b10}, 2), ElementsAre(0, -1));
}

TEST(SubByteTest, UnsignedAndFloatElementsAreNotSignExtended) {
  EXPECT_THAT(UnpackSigned(DType::kUint4, {0xf8}, 2), ElementsAre(8, 15));
  EXPECT_THAT(UnpackSigned(DType::kFloat4E2M1Fn, {0xf8}, 2), ElementsAre(8, 15));
}

TEST(SubByteTest, OddCountLeavesTheRestOfTheLastByteZero) {
  EXPECT_THAT(PackToInts(DType::kInt4, {0xff, 0xff, 0xff}), ElementsAre(0xff, 0x0f));
  EXPECT_THAT(PackToInts(DType::kUint2, {3, 3, 3, 3, 3}), ElementsAre(0xff, 0x03));
}

TEST(SubByteTest, BitsAboveTheWidthAreDropped) {
  EXPECT_THAT(PackToInts(DType::kUint4, {0xf1, 0x32}), ElementsAre(0x21));
  EXPECT_THAT(PackToInts(DType::kUint1, {0xfe, 0xff}), ElementsAre(0b10));
}

TEST(SubByteTest, NoElementsNeedNoMemory) {
  Unpack(DType::kInt4, nullptr, 0, nullptr);
  Pack(DType::kInt4, nullptr, 0, nullptr);
}

class SubByteRoundTripTest : public ::testing::TestWithParam<DType> {};

TEST_P(SubByteRoundTripTest, EveryPatternAtEveryCountComesBack) {
  const DType dtype = GetParam();
  for (int64_t count = 1; count <= 17; ++count) {
    const uint64_t bytes = PackedBytes(dtype, count);
    for (int pattern = 0; pattern < 256; ++pattern) {
      std::vector<uint8_t> packed(bytes);
      for (size_t i = 0; i < bytes; ++i) packed[i] = static_cast<uint8_t>(pattern + 37 * static_cast<int>(i));
      std::vector<uint8_t> unpacked(static_cast<size_t>(count));
      Unpack(dtype, packed.data(), count, unpacked.data());
      std::vector<uint8_t> again(bytes);
      Pack(dtype, unpacked.data(), count, again.data());
      const int used = static_cast<int>(count * BitWidth(dtype) - 8 * static_cast<int64_t>(bytes - 1));
      packed.back() = static_cast<uint8_t>(packed.back() & ((1 << used) - 1));  // the remaining bits are padding
      ASSERT_EQ(again, packed) << ShortName(dtype) << " x " << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SubByteRoundTripTest,
                         ::testing::Values(DType::kInt1, DType::kInt2, DType::kInt4, DType::kUint1, DType::kUint2,
                                           DType::kUint4, DType::kFloat4E2M1Fn),
                         [](const auto& test) { return std::string(ShortName(test.param)); });

}  // namespace
}  // namespace callout
