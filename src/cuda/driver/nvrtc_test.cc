// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "testing/status_matchers.h"

namespace callout::internal::cuda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kScale[] = R"(extern "C" __global__ void scale(float* data, float by, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= by;
}
template <typename T>
__global__ void twice(T* data) {
  data[threadIdx.x] += data[threadIdx.x];
}
)";

NvrtcSource Source(std::string code, std::vector<std::string> kernels = {},
                   const char* architecture = "--gpu-architecture=sm_90") {
  return {std::move(code), "mine.cu", {architecture}, std::move(kernels), {}};
}

/// Uses the NVRTC of this machine.
class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = Nvrtc::Find({"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so", "libnvrtc.so.12"});
    if (!found.ok()) GTEST_SKIP() << found.status().message();
    nvrtc = *found;
  }
  const Nvrtc* nvrtc = nullptr;
};

TEST_F(NvrtcTest, SaysWhatItIs) {
  EXPECT_GE(nvrtc->version(), 12000);
  EXPECT_THAT(nvrtc->path(), StartsWith("/"));
  EXPECT_THAT(nvrtc->architectures(), Contains(90));
}

TEST_F(NvrtcTest, CompilesToMachineCodeAndPtx) {
  const NvrtcImage image = nvrtc->Compile(Source(kScale, {"scale", "twice<double>"}));
  ASSERT_THAT(image.status, IsOk());
  EXPECT_THAT(image.cubin, StartsWith("\x7f"
                                      "ELF"));
  EXPECT_THAT(image.ptx, HasSubstr(".target sm_90"));
  EXPECT_TRUE(image.ptx.ends_with('\0'));
  EXPECT_THAT(image.symbols, ElementsAre("scale", "_Z5twiceIdEvPT_"));
  EXPECT_THAT(image.log, IsEmpty());
}

TEST_F(NvrtcTest, AVirtualArchitectureGivesPtxAlone) {
  const NvrtcImage image = nvrtc->Compile(Source(kScale, {"scale"}, "--gpu-architecture=compute_75"));
  ASSERT_THAT(image.status, IsOk());
  EXPECT_THAT(image.cubin, IsEmpty());
  EXPECT_THAT(image.ptx, HasSubstr(".visible .entry scale("));
}

TEST_F(NvrtcTest, AWrongSourceIsAStatusAndALogWithItsLines) {
  const NvrtcImage image = nvrtc->Compile(Source("\n__global__ void f() { nowhere(); }\n"));
  EXPECT_THAT(image.status, StatusIs(StatusCode::kInvalidArgument,
                                     "nvrtcCompileProgram of 'mine.cu' failed: NVRTC_ERROR_COMPILATION (6)"));
  EXPECT_THAT(image.log, HasSubstr("mine.cu(2): error: identifier \"nowhere\" is undefined"));
  EXPECT_THAT(image.cubin + image.ptx, IsEmpty());
}

TEST_F(NvrtcTest, WarningsOfAGoodSourceAreInTheLog) {
  const NvrtcImage image = nvrtc->Compile(Source("__global__ void f() { int unused; }\n"));
  EXPECT_THAT(image.status, IsOk());
  EXPECT_THAT(image.log, HasSubstr("mine.cu(1): warning"));
}

TEST_F(NvrtcTest, AWrongArchitectureIsAStatus) {
  const NvrtcImage image = nvrtc->Compile(Source(kScale, {}, "--gpu-architecture=sm_12"));
  EXPECT_THAT(image.status, StatusIs(StatusCode::kInvalidArgument, "NVRTC_ERROR_INVALID_OPTION (5)"));
  EXPECT_THAT(image.log, HasSubstr("--gpu-architecture"));
}

TEST_F(NvrtcTest, AKernelThatThereIsNotIsNamed) {
  const NvrtcImage image = nvrtc->Compile(Source(kScale, {"scale", "nowhere<float>"}));
  EXPECT_THAT(image.status, StatusIs(StatusCode::kInvalidArgument, "NVRTC_ERROR_COMPILATION"));
  EXPECT_THAT(image.log, HasSubstr("nowhere"));
}

TEST_F(NvrtcTest, HeadersNeedNoDisk) {
  NvrtcSource source = Source("#include <answer.h>\n__global__ void f(int* y) { *y = ANSWER; }\n");
  EXPECT_THAT(nvrtc->Compile(source).log, HasSubstr("answer.h"));
  source.headers = {{"answer.h", "#define ANSWER 42\n"}};
  EXPECT_THAT(nvrtc->Compile(source).status, IsOk());
}

TEST_F(NvrtcTest, ThreadsCompileAtOnce) {
  std::vector<NvrtcImage> images(4);
  std::vector<std::thread> threads;
  for (NvrtcImage& image : images) {
    threads.emplace_back([&] { image = nvrtc->Compile(Source(kScale, {"scale"})); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const NvrtcImage& image : images) EXPECT_EQ(image.cubin, images[0].cubin);
  EXPECT_FALSE(images[0].cubin.empty());
}

/// Clears the environment variables that describe this machine.
class NvrtcSearchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* path = std::getenv("CALLOUT_NVRTC")) before_ = path;
    unsetenv("CALLOUT_NVRTC");
  }
  void TearDown() override {
    unsetenv("CALLOUT_NVRTC");
    if (!before_.empty()) setenv("CALLOUT_NVRTC", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

TEST_F(NvrtcSearchTest, NoneIsAStatusWithAllThatWasTried) {
  EXPECT_THAT(
      Nvrtc::Find({"/no/libnvrtc.so.13", "/no/libnvrtc.so.12"}),
      StatusIs(StatusCode::kNotFound, "there is no NVRTC:\n  cannot load shared library '/no/libnvrtc.so.13': "));
  EXPECT_THAT(Nvrtc::Find({"/no/libnvrtc.so.13", "/no/libnvrtc.so.12"}),
              StatusIs(StatusCode::kNotFound, "\n  cannot load shared library '/no/libnvrtc.so.12': "));
}

TEST_F(NvrtcSearchTest, ALibraryThatIsNoneIsRefused) {
  EXPECT_THAT(Nvrtc::Open("libm.so.6"), StatusIs(StatusCode::kFailedPrecondition,
                                                 "'libm.so.6' is no NVRTC, or too old: it lacks nvrtcVersion, nvrtc"));
}

TEST_F(NvrtcSearchTest, TheEnvironmentReplacesTheSearch) {
  setenv("CALLOUT_NVRTC", "/mine/libnvrtc.so", 1);
  EXPECT_THAT(Nvrtc::Find({"libnvrtc.so.13"}),
              StatusIs(StatusCode::kNotFound, "cannot load shared library '/mine/libnvrtc.so': "));
}

}  // namespace
}  // namespace callout::internal::cuda
