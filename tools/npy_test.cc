// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "array_spec.h"
#include "npz.h"
#include "testing/status_matchers.h"

namespace callout::tools {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::ElementsAre;

Array OfSpec(const std::string& text) {
  auto array = ParseSpec(text);
  EXPECT_THAT(array, IsOk()) << text;
  return std::move(array).value();
}

std::string File(const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  return bytes + header + data;
}

TEST(NpyTest, ComesBackAsItWent) {
  for (const char* spec :
       {"f32[2,3]=random:1", "f64[]=1.5", "s8[3]=1,-2,3", "u16[1]=7", "bool[2]=1,0", "c64[2]=1+2j", "c128[1]=-1j",
        "f16[2]=1,2", "s64[0,4]=", "bf16[2]=1,2", "f8e4m3fn[2]=1,2", "s4[3]=-8,7,1"}) {
    const Array array = OfSpec(spec);
    const std::string bytes = FormatNpy(array);
    EXPECT_EQ((bytes.size() - array.bytes.size()) % 64, 0U) << spec;
    const auto back = ParseNpy(bytes, "x", array.type.dtype);
    ASSERT_THAT(back, IsOk()) << spec;
    EXPECT_EQ(back->type, array.type) << spec;
    EXPECT_EQ(back->bytes, array.bytes) << spec;
  }
}

TEST(NpyTest, TakesFortransOrder) {
  // The data is [[1, 2, 3], [4, 5, 6]], column by column.
  const auto array = ParseNpy(File("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\6"), "x");
  ASSERT_THAT(array, IsOk());
  EXPECT_EQ(array->bytes, OfSpec("s8[2,3]=1,2,3,4,5,6").bytes);
}

TEST(NpyTest, RawBytesAreWhatIsExpected) {
  const std::string file = File("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", "\x80\x3f");
  const auto array = ParseNpy(file, "x", DType::kBfloat16);
  ASSERT_THAT(array, IsOk());
  EXPECT_EQ(array->bytes, OfSpec("bf16[1]=1").bytes);
  EXPECT_THAT(ParseNpy(file, "'x'"), StatusIs(StatusCode::kInvalidArgument, "'x' has elements of type '<V2'"));
  EXPECT_THAT(ParseNpy(file, "'x'", DType::kFloat32), StatusIs(StatusCode::kInvalidArgument, "'<V2'"));
}

TEST(NpyTest, SaysWhatIsWrong) {
  const std::string good = File("{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", "\1\2\3");
  ASSERT_THAT(ParseNpy(good, "x"), IsOk());
  const std::pair<std::string, const char*> cases[] = {
      {"", "is no .npy file"},
      {"PK\3\4", "is no .npy file"},
      {good.substr(0, 20), "ends within its header"},
      {good.substr(0, good.size() - 1), "should have 3 bytes of s8[3], and has 2"},
      {File("{'descr': '>i4', 'fortran_order': False, 'shape': (), }", "\0\0\0\1"), "elements of type '>i4'"},
      {File("{'descr': '|O', 'fortran_order': False, 'shape': (), }", ""), "elements of type '|O'"},
      {File("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (), }", ""), "no .npy header"},
      {File("{'descr': '|i1', 'fortran_order': 0, 'shape': (3,), }", "\1\2\3"), "no .npy header"},
      {File("{'descr': '|i1', 'fortran_order': False, 'shape': 3, }", "\1\2\3"), "no .npy header"},
      {File("{'descr': '|i1', 'fortran_order': False, 'shape': (-3,), }", "\1\2\3"), "no .npy header"},
      {File("{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999999, 99999999999), }", ""), "cannot be"},
  };
  for (const auto& [bytes, reason] : cases) {
    EXPECT_THAT(ParseNpy(bytes, "x"), StatusIs(StatusCode::kInvalidArgument, reason)) << reason;
  }
}

TEST(NpyTest, AnyByteMayBeWrong) {
  const std::string good = File("{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", "\1\2\3");
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char wrong : {'\0', '(', '9', '\xff'}) {
      std::string bytes = good;
      bytes[i] = wrong;
      const auto array = ParseNpy(bytes, "x", DType::kFloat8E4M3);
      EXPECT_TRUE(!array.ok() || array->bytes.size() <= bytes.size());
    }
  }
}

class NpzTest : public ::testing::Test {
 protected:
  void TearDown() override { (void)std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "/" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid()) +
                            ".npz";
};

TEST_F(NpzTest, ComesBackAsItWent) {
  const NamedArrays arrays = {{"first", OfSpec("f32[2]=1,2")}, {"second", OfSpec("bf16[]=3")}};
  ASSERT_THAT(WriteNpz(path_, arrays), IsOk());
  ASSERT_THAT(WriteNpz(path_, arrays), IsOk()) << "it is there already";
  const auto back = ReadNpz(path_, {DType::kFloat32, DType::kBfloat16});
  ASSERT_THAT(back, IsOk());
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ((*back)[0].first, "first");
  EXPECT_EQ((*back)[0].second.bytes, arrays[0].second.bytes);
  EXPECT_EQ((*back)[1].second.type, arrays[1].second.type);
}

TEST_F(NpzTest, SaysWhatIsWrong) {
  EXPECT_THAT(ReadNpz("/no/such.npz"), StatusIs(StatusCode::kNotFound, "/no/such.npz"));
  EXPECT_THAT(WriteNpz("/dev/null/x.npz", {}), StatusIs(StatusCode::kInternal, "/dev/null/x.npz"));
  std::ofstream(path_) << "no archive";
  EXPECT_THAT(ReadNpz(path_), StatusIs(StatusCode::kInvalidArgument, "it is no .npz file"));
}

TEST_F(NpzTest, ALinkStaysAndADeviceIsLeftAlone) {
  const std::string link = path_ + ".link";
  ASSERT_THAT(WriteNpz(path_, {}), IsOk());
  std::filesystem::create_symlink(path_, link);
  EXPECT_THAT(WriteNpz(link, {{"x", OfSpec("f32[]=1")}}), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadNpz(path_)->size(), 1U);
  (void)std::remove(link.c_str());
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(WriteNpz(folder, {}), StatusIs(StatusCode::kInvalidArgument, "it is no regular file"));
}

TEST_F(NpzTest, BrokenArchivesAreErrors) {
  ASSERT_THAT(WriteNpz(path_, {{"x", OfSpec("f32[4]=1,2,3,4")}}), IsOk());
  std::ifstream file(path_, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(file), {});
  int errors = 0;
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(~bytes[i]);
    std::ofstream(path_, std::ios::binary) << bytes;
    errors += ReadNpz(path_).ok() ? 0 : 1;
  }
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace callout::tools
