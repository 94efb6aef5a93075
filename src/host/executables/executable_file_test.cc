// SPDX-License-Identifier: Apache-2.0
#include "host/executables/executable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

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

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Optional;

class ExecutableCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "callout_cache_XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/deep/cache";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_, folder_;
};

TEST_F(ExecutableCacheTest, HasWhatWasWritten) {
  const auto cache = ExecutableCache::Open(folder_);
  ASSERT_THAT(cache, IsOk());
  EXPECT_EQ(cache->Read("ab"), std::nullopt);
  ASSERT_THAT(cache->Write("ab", "one"), IsOk());
  ASSERT_THAT(cache->Write("ab", "another"), IsOk());
  EXPECT_THAT(cache->Read("ab"), Optional(std::string("another")));
  EXPECT_EQ(cache->Read("cd"), std::nullopt);
  struct stat status = {};
  ASSERT_EQ(stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "something unfinished";
}

TEST_F(ExecutableCacheTest, FoldersThatOthersMayWriteToAreRefused) {
  ASSERT_THAT(ExecutableCache::Open(folder_), IsOk());
  for (const mode_t mode : {0720U, 0702U}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_THAT(ExecutableCache::Open(folder_),
                StatusIs(StatusCode::kPermissionDenied, HasSubstr("others may write to the cache")));
  }
}

TEST_F(ExecutableCacheTest, WhatIsNoFolderIsRefused) {
  std::ofstream(root_ + "/file") << "x";
  EXPECT_THAT(ExecutableCache::Open(root_ + "/file"), StatusIs(StatusCode::kInternal, HasSubstr("is no folder")));
  EXPECT_THAT(ExecutableCache::Open(root_ + "/file/cache"),
              StatusIs(StatusCode::kInternal, HasSubstr("cannot make the cache")));
}

TEST_F(ExecutableCacheTest, FilesThatAnotherCouldHaveWrittenAreNotThere) {
  const auto cache = ExecutableCache::Open(folder_);
  ASSERT_THAT(cache, IsOk());
  const std::string path = folder_ + "/ab.executable";
  std::ofstream(path) << "x";
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(cache->Read("ab"), std::nullopt);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_THAT(cache->Read("ab"), Optional(std::string("x")));
  std::filesystem::rename(path, folder_ + "/elsewhere");
  std::filesystem::create_symlink(folder_ + "/elsewhere", path);
  EXPECT_EQ(cache->Read("ab"), std::nullopt);
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(cache->Read("ab"), std::nullopt);
}

TEST_F(ExecutableCacheTest, ReadersSeeAllOfAFileOrNothing) {
  const auto cache = ExecutableCache::Open(folder_);
  ASSERT_THAT(cache, IsOk());
  const std::string one(1 << 18, 'a'), other(1 << 17, 'b');
  std::vector<std::thread> writers;
  for (const std::string* bytes : {&one, &other}) {
    writers.emplace_back([&cache, bytes] {
      for (int i = 0; i < 50; ++i) EXPECT_THAT(cache->Write("ab", *bytes), IsOk());
    });
  }
  for (int i = 0; i < 200; ++i) {
    const auto bytes = cache->Read("ab");
    EXPECT_THAT(bytes.value_or(one), AnyOf(one, other));
  }
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace callout::internal
