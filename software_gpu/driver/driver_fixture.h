// SPDX-License-Identifier: Apache-2.0
//
// Fixture for tests of the driver: devices, a stream, a module of PTX, and a gate at which streams wait. The tests call
// the driver by CUDA's names, as programs do.
#pragma once

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "driver/software_gpu.h"

extern "C" const SoftwareGpuControl* software_gpu_control();

namespace callout::software_gpu {

inline const std::string kPtxHead = ".version 8.6\n.target sm_90\n.address_size 64\n";

// Kernels: store(uint32_t* at, uint32_t value), load(uint32_t* to, const uint32_t* from), and append(uint32_t* log,
// uint32_t value), where the log's first word is its length.
inline const std::string kKernels = kPtxHead + R"(
.visible .entry store(.param .u64 at, .param .u32 value) {
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [at];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry load(.param .u64 to, .param .u64 from) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry append(.param .u64 log, .param .u32 value) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [log];
  ld.param.u32 %r1, [value];
  ld.global.u32 %r2, [%rd1];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd1], %r2;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

class DriverFixture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    software_gpu_control()->set_devices(2);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&gate_), sizeof(*gate_), CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    gate_->store(0);
    ASSERT_EQ(cuModuleLoadData(&module_, kKernels.c_str()), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&word_, kLogBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(word_, 0, kLogBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }

  void TearDown() override {
    Open();
    software_gpu_control()->set_devices(1);
  }

  // Makes later work of the stream wait for Open().
  void Close(CUstream stream) {
    ASSERT_EQ(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(gate_), 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
  }

  void Open() { gate_->store(1); }

  static CUfunction Function(CUmodule module, const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS) << name;
    return function;
  }

  template <typename... Values>
  static CUresult LaunchFunction(CUfunction function, CUstream stream, Values... values) {
    void* parameters[] = {&values..., nullptr};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }

  // Launch the kernels of kKernels. The second parameter of load has 8 bytes, those of the others 4.
  CUresult LaunchStore(CUstream stream, CUdeviceptr at, uint32_t value) {
    return LaunchFunction(Function(module_, "store"), stream, at, value);
  }
  CUresult LaunchLoad(CUstream stream, CUdeviceptr to, CUdeviceptr from) {
    return LaunchFunction(Function(module_, "load"), stream, to, from);
  }
  CUresult LaunchAppend(CUstream stream, uint32_t value) {
    return LaunchFunction(Function(module_, "append"), stream, word_, value);
  }

  static CUstream Stream(unsigned int flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }

  static CUdeviceptr Allocate(size_t bytes = 256) {
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, bytes), CUDA_SUCCESS);
    return memory;
  }

  static uint32_t Read(CUdeviceptr at) {
    uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, at, sizeof(value)), CUDA_SUCCESS);
    return value;
  }

  // Returns the words that append kernels wrote.
  std::vector<uint32_t> Log() {
    std::vector<uint32_t> words(kLogBytes / 4);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(words.data(), word_, kLogBytes), CUDA_SUCCESS);
    return {words.begin() + 1, words.begin() + 1 + words[0]};
  }

  // Starts `call` in another thread, and returns when the call has begun.
  template <typename Function>
  std::thread Begin(const char* name, CUresult* result, Function call) {
    const int before = software_gpu_control()->calls(name);
    std::thread thread([this, result, call] {
      EXPECT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
      *result = call();
    });
    while (software_gpu_control()->calls(name) == before) std::this_thread::yield();
    return thread;
  }

  static constexpr size_t kLogBytes = 16384;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  CUdeviceptr word_ = 0;
  std::atomic<uint32_t>* gate_ = nullptr;
};

using Words = std::vector<uint32_t>;

}  // namespace callout::software_gpu
