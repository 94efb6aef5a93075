// SPDX-License-Identifier: Apache-2.0
//
// Fixture for tests of graphs and captures: a device with the kernels of testdata/kernels.cc. The tests call the driver
// by CUDA's names, as programs do.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "driver/software_gpu.h"

extern "C" const SoftwareGpuControl* software_gpu_control();

namespace callout::software_gpu {

class GraphFixture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    std::ifstream file(CALLOUT_SOFTWARE_GPU_IMAGE, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_EQ(cuLibraryLoadData(&library_, image_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    // All functions are loaded now: loading one while a stream is recorded ends the recording.
    for (const char* name : {"append", "set_conditional", "count_down", "fault"}) {
      CUkernel kernel = nullptr;
      ASSERT_EQ(cuLibraryGetKernel(&kernel, library_, name), CUDA_SUCCESS);
      ASSERT_EQ(cuKernelGetFunction(&functions_[name], kernel), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuMemAlloc(&log_, kLogBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&word_, 4), CUDA_SUCCESS);
    Clear();
  }

  void TearDown() override { software_gpu_control()->reset(); }

  CUfunction Function(const std::string& name) { return functions_.at(name); }

  // Keeps the values to which a kernel's parameters point.
  struct Parameters {
    uint64_t first;
    uint64_t second;
    void* pointers[2] = {&first, &second};
  };

  CUDA_KERNEL_NODE_PARAMS Kernel(const char* name, Parameters& parameters) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    params.func = Function(name);
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = parameters.pointers;
    return params;
  }

  CUgraph Graph() {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    return graph;
  }

  // Adds a node that appends `value` to the log.
  CUgraphNode Append(CUgraph graph, uint32_t value, std::vector<CUgraphNode> after = {}) {
    Parameters parameters{log_, value};
    const CUDA_KERNEL_NODE_PARAMS params = Kernel("append", parameters);
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &params), CUDA_SUCCESS);
    return node;
  }

  CUresult LaunchAppend(CUstream stream, uint32_t value) {
    Parameters parameters{log_, value};
    return cuLaunchKernel(Function("append"), 1, 1, 1, 1, 1, 1, 0, stream, parameters.pointers, nullptr);
  }

  // Adds a kernel node that sets a condition.
  CUgraphNode AddSetter(CUgraph graph, const char* kernel, CUgraphConditionalHandle handle,
                        std::vector<CUgraphNode> after = {}) {
    Parameters parameters{handle, word_};
    const CUDA_KERNEL_NODE_PARAMS params = Kernel(kernel, parameters);
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &params), CUDA_SUCCESS);
    return node;
  }

  CUgraphNode AddConditional(CUgraph graph, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                             unsigned int size, std::vector<CUgraph>* bodies, std::vector<CUgraphNode> after = {}) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = context_;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &params), CUDA_SUCCESS);
    if (node != nullptr) bodies->assign(params.conditional.phGraph_out, params.conditional.phGraph_out + size);
    return node;
  }

  CUgraphConditionalHandle Handle(CUgraph graph, unsigned int initial = 0, unsigned int flags = 0) {
    CUgraphConditionalHandle handle = 0;
    EXPECT_EQ(cuGraphConditionalHandleCreate(&handle, graph, context_, initial, flags), CUDA_SUCCESS);
    return handle;
  }

  CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }

  void Run(CUgraphExec exec) {
    EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }

  void SetWord(uint32_t value) {
    EXPECT_EQ(cuMemcpyHtoDAsync(word_, &value, sizeof(value), stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }

  void Clear() {
    const std::vector<char> zeros(kLogBytes);
    EXPECT_EQ(cuMemcpyHtoDAsync(log_, zeros.data(), kLogBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }

  // Returns the words that append kernels wrote since the last Clear().
  std::vector<uint32_t> Log() {
    std::vector<uint32_t> words(kLogBytes / 4);
    EXPECT_EQ(cuMemcpyDtoHAsync(words.data(), log_, kLogBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    return {words.begin() + 1, words.begin() + 1 + words[0]};
  }

  static constexpr size_t kLogBytes = 1024;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUlibrary library_ = nullptr;
  CUdeviceptr log_ = 0;
  CUdeviceptr word_ = 0;
  std::map<std::string, CUfunction> functions_;
  std::vector<char> image_;
};

using Words = std::vector<uint32_t>;

}  // namespace callout::software_gpu
