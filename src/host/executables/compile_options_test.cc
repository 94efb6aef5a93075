// SPDX-License-Identifier: Apache-2.0
//
// Compares bytes that follow from the wire format; tests with XLA's plugin show that XLA reads them.
#include "host/executables/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::HasSubstr;

std::string Hex(const pjrt::CompileOptions& options) {
  const Result<std::string> bytes = SerializeCompileOptions(options);
  if (!bytes.ok()) return std::string(bytes.status().message());
  std::string text;
  for (const char c : bytes.value()) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    text.append({kDigits[byte >> 4U], kDigits[byte & 15U], ' '});
  }
  return text;
}

TEST(CompileOptionsTest, OneDevice) { EXPECT_EQ(Hex({}), "1a 07 20 01 28 01 98 01 01 "); }

TEST(CompileOptionsTest, Replicas) { EXPECT_EQ(Hex({.num_replicas = 2}), "1a 07 20 02 28 01 98 01 01 "); }

TEST(CompileOptionsTest, Partitions) { EXPECT_EQ(Hex({.num_partitions = 2}), "1a 09 20 01 28 02 30 01 98 01 01 "); }

TEST(CompileOptionsTest, TheProgramSaysHowManyPartitions) {
  EXPECT_EQ(SerializeCompileOptions({}, 2).value(), SerializeCompileOptions({.num_partitions = 2}, 3).value());
}

TEST(CompileOptionsTest, DeviceAssignment) {
  EXPECT_EQ(Hex({.num_replicas = 2, .device_assignment = {3, 300}}),
            "1a 14 20 02 28 01 4a 0b 08 02 10 01 1a 05 08 03 08 ac 02 98 01 01 ");
}

TEST(CompileOptionsTest, WhatWouldEndTheProcessIsRefused) {
  EXPECT_THAT(Hex({.num_replicas = 0}), HasSubstr("at least one replica and one partition, got 0 and 1"));
  EXPECT_THAT(Hex({.num_partitions = -1}), HasSubstr("at least one replica and one partition, got 1 and -1"));
  EXPECT_THAT(Hex({.num_replicas = 2, .device_assignment = {1}}), HasSubstr("for 2 devices has 1"));
  EXPECT_THAT(Hex({.num_replicas = 2'000'000'000, .num_partitions = 2}), HasSubstr("at most 1048576 devices"));
}

}  // namespace
}  // namespace callout::internal
