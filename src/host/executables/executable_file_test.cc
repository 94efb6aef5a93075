// SPDX-License-Identifier: Apache-2.0
#include "host/executables/executable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::HasSubstr;

const ExecutableFile kFile = {.made_by = "cpu", .wants_runners = true, .device = 3, .bytes = std::string("a\0b", 3)};

TEST(ExecutableFileTest, IsReadAsItWasWritten) {
  const auto file = ExecutableFile::Read(kFile.Write());
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->made_by, "cpu");
  EXPECT_TRUE(file->wants_runners);
  EXPECT_EQ(file->device, 3);
  EXPECT_EQ(file->bytes, std::string("a\0b", 3));
}

TEST(ExecutableFileTest, WhatIsCutOffIsRefused) {
  const std::string text = kFile.Write();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(ExecutableFile::Read(text.substr(0, size)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("this is no executable of Callout's")))
        << size;
  }
}

TEST(ExecutableFileTest, FilesOfOtherVersionsAreRefused) {
  std::string text = kFile.Write();
  text[text.find('\n') - 1] = '1';
  EXPECT_THAT(
      ExecutableFile::Read(text),
      StatusIs(StatusCode::kInvalidArgument,
               "callout: this is no executable of Callout's: another version wrote it; compile the program again"));
}

TEST(ExecutableFileTest, WhatIsDamagedIsRefused) {
  const std::string text = kFile.Write();
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THAT(ExecutableFile::Read(damaged), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no executable")))
        << at;
  }
  EXPECT_THAT(ExecutableFile::Read(text + "x"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("damaged")));
}

}  // namespace
}  // namespace callout::internal
