// SPDX-License-Identifier: Apache-2.0
#include "core/base/dynamic_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(DynamicLibraryTest, MissingFileIsNamedWithTheLoadersReason) {
  const auto library = DynamicLibrary::Open("/no/such/library.so");
  EXPECT_THAT(library, StatusIs(StatusCode::kNotFound, "cannot load shared library '/no/such/library.so': "));
  EXPECT_THAT(library, StatusIs(StatusCode::kNotFound, "No such file or directory"));
}

TEST(DynamicLibraryTest, FileThatIsNoLibraryIsRefused) {
  EXPECT_THAT(DynamicLibrary::Open("/dev/null"), StatusIs(StatusCode::kNotFound, "'/dev/null'"));
}

TEST(DynamicLibraryTest, FindsExportedSymbolsOnly) {
  const auto library = DynamicLibrary::Open("libm.so.6");
  ASSERT_THAT(library, IsOk());
  EXPECT_NE(library.value().Find("cos"), nullptr);
  EXPECT_EQ(library.value().Find("no_such_symbol"), nullptr);
  EXPECT_EQ(library.value().path(), "libm.so.6");
}

class DynamicLibraryBytesTest : public ::testing::Test {
 protected:
  DynamicLibraryBytesTest() {
    std::ifstream file(CALLOUT_SECOND_CORE, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  static constexpr const char* kSymbol = "callout_second_core_marker";

  std::string bytes_;
};

TEST_F(DynamicLibraryBytesTest, AreLoadedWithoutAFile) {
  const auto library = DynamicLibrary::OpenBytes("marked", bytes_);
  ASSERT_THAT(library, IsOk());
  void* const marker = library.value().Find(kSymbol);
  ASSERT_NE(marker, nullptr);
  EXPECT_EQ(reinterpret_cast<int (*)()>(marker)(), 1);
  EXPECT_EQ(library.value().Find("no_such_symbol"), nullptr);
  Dl_info info = {};
  ASSERT_NE(dladdr(marker, &info), 0);
  EXPECT_EQ(std::filesystem::read_symlink(info.dli_fname), "/memfd:marked (deleted)");
}

TEST_F(DynamicLibraryBytesTest, AreLoadedAnewEveryTime) {
  const auto first = DynamicLibrary::OpenBytes("same", bytes_);
  const auto second = DynamicLibrary::OpenBytes("same", bytes_);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_NE(first.value().Find(kSymbol), second.value().Find(kSymbol));
}

TEST_F(DynamicLibraryBytesTest, MayHaveALongName) {
  EXPECT_THAT(DynamicLibrary::OpenBytes(std::string(1000, 'x'), bytes_), IsOk());
}

TEST_F(DynamicLibraryBytesTest, LeaveNoDescriptorBehindThatNobodyNeeds) {
  const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open_files();
  EXPECT_FALSE(DynamicLibrary::OpenBytes("nothing", "").ok());
  EXPECT_EQ(open_files(), before);
}

TEST_F(DynamicLibraryBytesTest, ThatAreNoLibraryAreRefusedWithTheLoadersReason) {
  EXPECT_THAT(DynamicLibrary::OpenBytes("nothing", ""),
              StatusIs(StatusCode::kInvalidArgument, "cannot load 'nothing' from memory: "));
  EXPECT_THAT(DynamicLibrary::OpenBytes("text", std::string(1000, 'x')),
              StatusIs(StatusCode::kInvalidArgument, "invalid ELF header"));
  EXPECT_THAT(DynamicLibrary::OpenBytes("head", bytes_.substr(0, 20)),
              StatusIs(StatusCode::kInvalidArgument, "file too short"));
}

}  // namespace
}  // namespace callout::internal
