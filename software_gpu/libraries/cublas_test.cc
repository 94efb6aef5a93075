// SPDX-License-Identifier: Apache-2.0
//
// Tests cuBLASLt and cuBLAS as their clients use them, on streams of the driver, and in graphs.
#include "libraries/cublas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "libraries/client.h"
#include "libraries/cublas_types.h"
#include "libraries/cublaslt.h"

namespace callout::software_gpu {
namespace {

using internal::cuda::CUcontext;
using internal::cuda::CUdeviceptr;
using internal::cuda::CUgraph;
using internal::cuda::CUgraphExec;
using internal::cuda::CUstream;

#define EXPECT_DRIVER(...) EXPECT_EQ(CallDriver(__VA_ARGS__), 0)

class CublasTest : public testing::Test {
 protected:
  CublasTest() {
    EXPECT_DRIVER("cuInit", 0U);
    EXPECT_DRIVER("cuDevicePrimaryCtxRetain", &context_, 0);
    EXPECT_DRIVER("cuCtxPushCurrent", context_);
    EXPECT_DRIVER("cuStreamCreate", &stream_, 1U);
    EXPECT_DRIVER("cuMemAlloc", &memory_, kBytes);
  }
  ~CublasTest() override {
    EXPECT_DRIVER("cuStreamSynchronize", stream_);
    EXPECT_DRIVER("cuMemFree", memory_);
    EXPECT_DRIVER("cuStreamDestroy", stream_);
    EXPECT_DRIVER("cuCtxPopCurrent", &context_);
    EXPECT_DRIVER("cuDevicePrimaryCtxRelease", 0);
  }

  // Returns the address of a block of four floats on the device.
  CUdeviceptr Place(int index) const { return memory_ + static_cast<CUdeviceptr>(index) * 16; }
  void* Pointer(int index) const { return reinterpret_cast<void*>(Place(index)); }
  void Write(int index, const std::vector<float>& values) {
    EXPECT_DRIVER("cuMemcpyHtoDAsync", Place(index), static_cast<const void*>(values.data()),
                  values.size() * sizeof(float), stream_);
    EXPECT_DRIVER("cuStreamSynchronize", stream_);
  }
  std::vector<float> Read(int index) {
    std::vector<float> values(4);
    EXPECT_DRIVER("cuMemcpyDtoHAsync", static_cast<void*>(values.data()), Place(index), values.size() * sizeof(float),
                  stream_);
    EXPECT_DRIVER("cuStreamSynchronize", stream_);
    return values;
  }
  CUgraphExec Instantiate() {
    CUgraph graph = nullptr;
    CUgraphExec replay = nullptr;
    EXPECT_DRIVER("cuStreamEndCapture", stream_, &graph);
    EXPECT_DRIVER("cuGraphInstantiateWithFlags", &replay, graph, uint64_t{0});
    EXPECT_DRIVER("cuGraphDestroy", graph);
    return replay;
  }

  static constexpr size_t kBytes = 256;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
};

class CublasLtTest : public CublasTest {
 protected:
  CublasLtTest() {
    EXPECT_EQ(cublasLtCreate(&handle_), 0);
    EXPECT_EQ(cublasLtMatmulDescCreate(&description_, kCompute32F, 0), 0);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout_, 0, 2, 2, 2), 0);
  }
  ~CublasLtTest() override {
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout_), 0);
    EXPECT_EQ(cublasLtMatmulDescDestroy(description_), 0);
    EXPECT_EQ(cublasLtDestroy(handle_), 0);
  }

  // Multiplies the matrices at 0 and 1 into the matrix at 2.
  int Multiply(const void* alpha, const void* beta) {
    return cublasLtMatmul(handle_, description_, alpha, Pointer(0), layout_, Pointer(1), layout_, beta, Pointer(2),
                          layout_, Pointer(2), layout_, nullptr, nullptr, 0, stream_);
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  const float one_ = 1;
  const float zero_ = 0;
};

TEST_F(CublasLtTest, MultipliesMatricesByColumns) {
  Write(0, {1, 2, 3, 4});
  Write(1, {5, 6, 7, 8});
  ASSERT_EQ(Multiply(&one_, &zero_), 0);
  EXPECT_THAT(Read(2), testing::ElementsAre(23, 34, 31, 46));
}

TEST_F(CublasLtTest, ReadsAlphaAndBetaOnTheDeviceWhenItRuns) {
  const int32_t mode = kPointerDevice;
  cublasLtMatmulDescSetAttribute(description_, kMatmulPointerMode, &mode, sizeof(mode));
  Write(0, {1, 0, 0, 1});
  Write(1, {1, 2, 3, 4});
  Write(2, {100, 100, 100, 100});
  Write(3, {10, 2});
  ASSERT_EQ(Multiply(Pointer(3), reinterpret_cast<void*>(Place(3) + 4)), 0);
  EXPECT_THAT(Read(2), testing::ElementsAre(210, 220, 230, 240));
}

TEST_F(CublasLtTest, ACapturedProductComputesAtEachReplay) {
  Write(0, {1, 0, 0, 1});
  Write(2, {7, 7, 7, 7});
  EXPECT_DRIVER("cuStreamBeginCapture", stream_, 1);
  ASSERT_EQ(Multiply(&one_, &zero_), 0);
  CUgraphExec replay = Instantiate();
  EXPECT_THAT(Read(2), testing::Each(7)) << "it ran while it was captured";
  for (const float factor : {2.0F, 3.0F}) {
    Write(1, {factor, 0, 0, factor});
    EXPECT_DRIVER("cuGraphLaunch", replay, stream_);
    EXPECT_THAT(Read(2), testing::ElementsAre(factor, 0, 0, factor));
  }
  EXPECT_DRIVER("cuGraphExecDestroy", replay);
}

TEST_F(CublasLtTest, EpiloguesAreAsked) {
  const int32_t epilogue = kEpilogueRelu | kEpilogueBias;
  void* bias = Pointer(4);
  cublasLtMatmulDescSetAttribute(description_, kMatmulEpilogue, &epilogue, sizeof(epilogue));
  cublasLtMatmulDescSetAttribute(description_, kMatmulBiasPointer, &bias, sizeof(bias));
  Write(0, {1, 0, 0, 1});
  Write(1, {1, 2, 3, 4});
  Write(4, {-2, 10});
  ASSERT_EQ(Multiply(&one_, &zero_), 0);
  EXPECT_THAT(Read(2), testing::ElementsAre(0, 12, 1, 14));
}

TEST_F(CublasLtTest, TheHeuristicHasOneAlgorithmForWhatItCanCompute) {
  cublasLtMatmulHeuristicResult_t result = {};
  cublasLtMatmulPreferenceOpaque preference;
  int found = 0;
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle_, description_, layout_, layout_, layout_, layout_, &preference, 1,
                                           &result, &found),
            kCublasSuccess);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(result.workspaceSize, 0U);
}

TEST_F(CublasLtTest, WhatIsUnknownIsRefused) {
  const int32_t order = 2;  // CUBLASLT_ORDER_COL32
  cublasLtMatrixLayoutSetAttribute(layout_, kLayoutOrder, &order, sizeof(order));
  EXPECT_EQ(Multiply(&one_, &zero_), kCublasNotSupported);
  const int32_t value = 1;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(description_, 99, &value, sizeof(value)), kCublasNotSupported);
}

TEST_F(CublasLtTest, AttributesAreReadAsTheyWereSet) {
  const int64_t leading = 17;
  int64_t got = 0;
  size_t written = 0;
  cublasLtMatrixLayoutSetAttribute(layout_, kLayoutLeading, &leading, sizeof(leading));
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout_, kLayoutLeading, &got, sizeof(got), &written), 0);
  EXPECT_EQ(got, leading);
  EXPECT_EQ(written, sizeof(got));
}

class CublasGemmTest : public CublasTest {
 protected:
  CublasGemmTest() {
    EXPECT_EQ(cublasCreate_v2(&handle_), 0);
    EXPECT_EQ(cublasSetStream_v2(handle_, stream_), 0);
  }
  ~CublasGemmTest() override { EXPECT_EQ(cublasDestroy_v2(handle_), 0); }

  cublasHandle_t handle_ = nullptr;
  const float one_ = 1;
  const float two_ = 2;
};

TEST_F(CublasGemmTest, SgemmAddsToWhatIsThere) {
  Write(0, {1, 2, 3, 4});
  Write(1, {1, 0, 0, 1});
  Write(2, {1, 1, 1, 1});
  ASSERT_EQ(cublasSgemm_v2(handle_, 1, 0, 2, 2, 2, &one_, Pointer(0), 2, Pointer(1), 2, &two_, Pointer(2), 2), 0);
  EXPECT_THAT(Read(2), testing::ElementsAre(3, 5, 4, 6));
}

TEST_F(CublasGemmTest, BatchesGoByTheirStrides) {
  Write(0, {1, 2, 3, 4});
  Write(1, {2, 0, 0, 2});
  Write(2, {0, 0, 0, 0});
  // The batch has two matrices of one element: the first and the last of the four floats.
  ASSERT_EQ(cublasGemmStridedBatchedEx(handle_, 0, 0, 1, 1, 1, &one_, Pointer(0), 0, 1, 3, Pointer(1), 0, 1, 3, &two_,
                                       Pointer(2), 0, 1, 2, 2, kCompute32F, -1),
            0);
  EXPECT_THAT(Read(2), testing::ElementsAre(2, 0, 8, 0));
}

TEST_F(CublasGemmTest, MixedTypesThatAreUnknownAreRefused) {
  EXPECT_EQ(cublasGemmEx(handle_, 0, 0, 2, 2, 2, &one_, Pointer(0), 0, 2, Pointer(1), 1, 2, &two_, Pointer(2), 0, 2,
                         kCompute32F, -1),
            kCublasNotSupported);
}

}  // namespace
}  // namespace callout::software_gpu
