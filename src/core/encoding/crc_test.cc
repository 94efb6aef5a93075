// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/checksums.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace callout::internal {
namespace {

constexpr std::string_view kCheck = "123456789";  // the standards give its checksums

TEST(CrcTest, ChecksumsOfTheStandards) {
  EXPECT_EQ(Crc32(kCheck), 0xCBF43926U);
  EXPECT_EQ(Crc32c(kCheck), 0xE3069283U);
  EXPECT_EQ(Crc32cByTable(kCheck), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(Crc32(""), 0U);
  EXPECT_EQ(Crc32c(""), 0U);
}

TEST(CrcTest, TableAndInstructionAgreeAtEveryLengthAndPlace) {
  std::minstd_rand random(3);
  std::string bytes(100, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; from + size <= bytes.size(); ++size) {
      const auto part = std::string_view(bytes).substr(from, size);
      ASSERT_EQ(Crc32c(part), Crc32cByTable(part)) << from << " " << size;
    }
  }
}

TEST(CrcTest, GoesOnFromWhatCameBefore) {
  for (size_t split = 0; split <= kCheck.size(); ++split) {
    EXPECT_EQ(Crc32(kCheck.substr(split), Crc32(kCheck.substr(0, split))), 0xCBF43926U);
    EXPECT_EQ(Crc32c(kCheck.substr(split), Crc32c(kCheck.substr(0, split))), 0xE3069283U);
    EXPECT_EQ(Crc32cByTable(kCheck.substr(split), Crc32cByTable(kCheck.substr(0, split))), 0xE3069283U);
  }
}

}  // namespace
}  // namespace callout::internal
