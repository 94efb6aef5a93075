// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/embedded_library.h"

#include <gtest/gtest.h>

#include <fstream>
#include <latch>
#include <thread>

#include "core/callbacks/registry.h"
#include "testing/library_bytes.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

#if defined(__x86_64__)
const std::string kHere = "linux-x86_64";
#elif defined(__aarch64__)
const std::string kHere = "linux-aarch64";
#endif

class EmbeddedLibraryTest : public LiveCountTest {
 protected:
  void TearDown() override {
    AllowEmbeddedCode(true);
    LiveCountTest::TearDown();
  }

  // Returns the function's result for 1.0, which is the factor of a multiplication.
  static float Factor(Callback& callback) {
    TestBuffer x = TestBuffer::Scalar(1.0F);
    TestBuffer y = TestBuffer::Zeros(DType::kFloat32, {});
    const callout_buffer arg = x.view();
    const callout_buffer result = y.view();
    callout_call call = {};
    call.struct_size = sizeof(call);
    call.num_args = call.num_results = 1;
    call.args = &arg;
    call.results = &result;
    EXPECT_THAT(callback.Call(call), IsOk());
    return y.values<float>()[0];
  }
  // Returns the lines of the process's memory map that name a library of this digest.
  static std::vector<std::string> Mappings(const LibraryBytes& library) {
    std::vector<std::string> lines;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("callout-" + library.digest.substr(0, 16)) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }
  // Returns the library with bytes appended: another digest and the same functions, so the library is loaded again.
  static LibraryBytes Variant(const std::string& end) { return LibraryBytes(twice_.bytes + end); }

  static inline const LibraryBytes twice_ = LibraryBytes::Read(CALLOUT_NATIVE_CALLBACKS);
  static inline const LibraryBytes thrice_ = LibraryBytes::Read(CALLOUT_OTHER_CALLBACKS);
};

TEST_F(EmbeddedLibraryTest, PlatformIsSystemAndProcessor) { EXPECT_EQ(NativePlatform(), kHere); }

TEST_F(EmbeddedLibraryTest, FunctionIsCalled) {
  const auto callback = LoadEmbeddedFunction("double", twice_.With("scale"));
  ASSERT_THAT(callback, IsOk());
  EXPECT_EQ(callback.value()->label(), "double");
  EXPECT_EQ(Factor(*callback.value()), 2.0F);
}

TEST_F(EmbeddedLibraryTest, PlainFunctionIsFound) {
  EXPECT_THAT(LoadEmbeddedFunction("sum", twice_.With("sum_plain")), IsOk());
}

TEST_F(EmbeddedLibraryTest, LibrariesStayApart) {
  const auto twice = LoadEmbeddedFunction("f", twice_.With("scale"));
  const auto thrice = LoadEmbeddedFunction("f", thrice_.With("scale"));
  ASSERT_THAT(twice, IsOk());
  ASSERT_THAT(thrice, IsOk());
  EXPECT_EQ(Factor(*twice.value()), 2.0F);
  EXPECT_EQ(Factor(*thrice.value()), 3.0F);
}

// The loader identifies a library by its path, and the path of a closed descriptor may come again.
TEST_F(EmbeddedLibraryTest, LibraryAfterOneThatFailedIsTheRightOne) {
  const LibraryBytes garbage("no library");
  const LibraryBytes other(thrice_.bytes + "after garbage");
  EXPECT_THAT(LoadEmbeddedFunction("f", garbage.With("scale")), StatusIs(StatusCode::kInvalidArgument, "memory"));
  const auto thrice = LoadEmbeddedFunction("f", other.With("scale"));
  EXPECT_THAT(LoadEmbeddedFunction("f", garbage.With("scale")), StatusIs(StatusCode::kInvalidArgument, "memory"));
  const LibraryBytes variant = Variant("after garbage");
  const auto twice = LoadEmbeddedFunction("f", variant.With("scale"));
  ASSERT_THAT(thrice, IsOk());
  ASSERT_THAT(twice, IsOk());
  EXPECT_EQ(Factor(*thrice.value()), 3.0F);
  EXPECT_EQ(Factor(*twice.value()), 2.0F);
}

TEST_F(EmbeddedLibraryTest, SameFunctionIsOneCallbackWhileItLives) {
  const LibraryBytes library = Variant("same");
  const auto first = LoadEmbeddedFunction("f", library.With("scale"));
  const auto second = LoadEmbeddedFunction("f", library.With("scale"));
  const auto other_label = LoadEmbeddedFunction("g", library.With("scale"));
  const auto other_symbol = LoadEmbeddedFunction("f", library.With("refuse"));
  for (const auto* one : {&first, &second, &other_label, &other_symbol}) ASSERT_THAT(*one, IsOk());
  EXPECT_EQ(first.value(), second.value());
  EXPECT_NE(first.value(), other_label.value());
  EXPECT_NE(first.value(), other_symbol.value());
  EXPECT_EQ(other_label.value()->label(), "g");
}

TEST_F(EmbeddedLibraryTest, LibraryIsLoadedOnceIntoMemoryWithoutAFile) {
  const LibraryBytes library = Variant("once");
  EXPECT_TRUE(Mappings(library).empty());
  uint64_t first_id = 0;
  {
    const auto callback = LoadEmbeddedFunction("f", library.With("scale"));
    ASSERT_THAT(callback, IsOk());
    first_id = callback.value()->id();
  }
  const auto mappings = Mappings(library);
  EXPECT_FALSE(mappings.empty());
  for (const std::string& line : mappings) EXPECT_NE(line.find(" /memfd:callout-"), std::string::npos) << line;
  const auto again = LoadEmbeddedFunction("f", library.With("scale"));
  ASSERT_THAT(again, IsOk());
  EXPECT_NE(again.value()->id(), first_id) << "the first callback is gone";
  EXPECT_EQ(Factor(*again.value()), 2.0F);
  EXPECT_EQ(Mappings(library), mappings);
}

TEST_F(EmbeddedLibraryTest, ThreadsShareOneCallback) {
  const LibraryBytes library = Variant("threads");
  std::shared_ptr<Callback> loaded[4];
  std::latch start(4);
  std::vector<std::thread> threads;
  for (auto& callback : loaded) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      auto result = LoadEmbeddedFunction("f", library.With("scale"));
      EXPECT_THAT(result, IsOk());
      if (result.ok()) callback = result.value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& callback : loaded) EXPECT_EQ(callback, loaded[0]);
}

TEST_F(EmbeddedLibraryTest, LabelIsKnownWhileTheFunctionLives) {
  auto callback = LoadEmbeddedFunction("labelled", twice_.With("scale"));
  ASSERT_THAT(callback, IsOk());
  const uint64_t id = callback.value()->id();
  EXPECT_EQ(internal::LabelOf(id), "labelled");
  callback.value().reset();
  EXPECT_EQ(internal::LabelOf(id), "");
}

TEST_F(EmbeddedLibraryTest, OtherPlatformIsRefused) {
  LibraryBytes library = twice_;
  library.platform = "darwin-arm64";
  EXPECT_THAT(
      LoadEmbeddedFunction("f", library.With("scale")),
      StatusIs(StatusCode::kFailedPrecondition,
               "callout: the native function 'f' that the program carries is for darwin-arm64; this is " + kHere));
}

TEST_F(EmbeddedLibraryTest, DamagedBytesAreRefused) {
  LibraryBytes library = twice_;
  library.bytes.back() = static_cast<char>(library.bytes.back() + 1);
  EXPECT_THAT(LoadEmbeddedFunction("f", library.With("scale")),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: the native function 'f' that the program carries is damaged: its SHA-256 is " +
                           Sha256Hex(library.bytes) + ", expected " + twice_.digest));
  library = twice_;
  library.digest.clear();
  EXPECT_THAT(LoadEmbeddedFunction("f", library.With("scale")), StatusIs(StatusCode::kInvalidArgument, "damaged"));
}

TEST_F(EmbeddedLibraryTest, BytesThatAreNoLibraryAreRefused) {
  const LibraryBytes library("no library");
  const std::string name = "'callout-" + library.digest.substr(0, 16) + "'";
  EXPECT_THAT(LoadEmbeddedFunction("f", library.With("scale")),
              StatusIs(StatusCode::kInvalidArgument, "cannot load " + name + " from memory: "));
}

TEST_F(EmbeddedLibraryTest, UnknownSymbolIsNamed) {
  EXPECT_THAT(LoadEmbeddedFunction("f", twice_.With("absent")),
              StatusIs(StatusCode::kNotFound, "exports neither 'absent' nor 'absent_callout_record'"));
  EXPECT_THAT(LoadEmbeddedFunction("f", twice_.With("scale")), IsOk());
}

TEST_F(EmbeddedLibraryTest, ProcessMayForbidThem) {
  const auto before = LoadEmbeddedFunction("f", twice_.With("scale"));
  ASSERT_THAT(before, IsOk());
  AllowEmbeddedCode(false);
  EXPECT_THAT(LoadEmbeddedFunction("f", twice_.With("scale")),
              StatusIs(StatusCode::kFailedPrecondition,
                       "callout: the program carries the native function 'f', and this process does not run code that "
                       "programs carry (config.embedded_code, CALLOUT_EMBEDDED_CODE)"));
  EXPECT_EQ(Factor(*before.value()), 2.0F) << "what is loaded stays usable";
  AllowEmbeddedCode(true);
  EXPECT_THAT(LoadEmbeddedFunction("f", twice_.With("scale")), IsOk());
}

}  // namespace
}  // namespace callout::internal
