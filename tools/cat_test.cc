// SPDX-License-Identifier: Apache-2.0
#include "cat.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace callout::tools {
namespace {

TEST(CatTest, CsvKeepsTextsAsTheyAre) {
  const std::string path = ::testing::TempDir() + "/cat_test_texts";
  std::ofstream(path) << "{\"name\": \"\\\"a\\\"\", \"x\": \"\\\"\"}\n";
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Cat({.path = path, .format = "csv"}), 0);
  std::fflush(stdout);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "name,x\n\"\"\"a\"\"\",\"\"\"\"\n");
  (void)std::remove(path.c_str());
}

}  // namespace
}  // namespace callout::tools
