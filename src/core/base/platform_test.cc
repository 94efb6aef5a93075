// SPDX-License-Identifier: Apache-2.0
#include "core/base/platform.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file_io.h"

namespace callout::internal {
namespace {

TEST(PlatformTest, ThreadsHaveNamesAndNumbersOfTheirOwn) {
  int64_t other = 0;
  char name[16] = "";
  std::thread([&] {
    NameThisThread("callout-test");
    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
    other = ThreadNumber();
  }).join();
  EXPECT_STREQ(name, "callout-test");
  EXPECT_NE(other, ThreadNumber());
}

TEST(PlatformTest, APrivateFileIsOpenedByItsPathUntilItIsHidden) {
  const PrivateFile made = CreatePrivateFile("callout-test", /*is_executable=*/false);
  const Descriptor owner(made.descriptor);
  ASSERT_GE(made.descriptor, 0);
  EXPECT_EQ(WriteAll(made.descriptor, "bytes"), 5);
  std::string read;
  std::ifstream(made.path) >> read;
  EXPECT_EQ(read, "bytes");
  HidePath(made);
  EXPECT_EQ(lseek(made.descriptor, 0, SEEK_END), 5);
  EXPECT_NE(fcntl(made.descriptor, F_GETFD) & FD_CLOEXEC, 0);
}

TEST(PlatformTest, LibrariesAreListed) {
  std::vector<std::string> paths;
  ForEachLibrary([&](std::string_view path) { paths.emplace_back(path); });
  EXPECT_GT(paths.size(), 2);
  EXPECT_TRUE(std::ranges::any_of(paths, [](const std::string& path) { return path.find("libc") != path.npos; }));
}

TEST(PlatformTest, FilesChangePlaces) {
  const std::string folder = ::testing::TempDir() + "callout_platform_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string one = folder + "/one", other = folder + "/other";
  std::ofstream(one) << "1";
  std::ofstream(other) << "2";
  EXPECT_TRUE(ExchangeFiles(one.c_str(), other.c_str()));
  std::string read;
  std::ifstream(one) >> read;
  EXPECT_EQ(read, "2");
  EXPECT_FALSE(ExchangeFiles(one.c_str(), (folder + "/none").c_str()));
  EXPECT_EQ(errno, ENOENT);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace callout::internal
