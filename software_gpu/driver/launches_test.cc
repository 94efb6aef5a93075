// SPDX-License-Identifier: Apache-2.0
//
// Tests kernels: parameters, shared memory, occupancy, and the checks of launches (Driver API, Execution Control,
// Occupancy).
#include <array>
#include <functional>

#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

// Kernels: mixed(uint8_t, uint64_t, uint32_t, char[12]); last_shared(uint32_t* to, uint32_t bytes), which reads a word
// at the end of static and dynamic shared memory together; bounded(), which has .maxntid 64.
const std::string kShapes = kPtxHead + R"(
.extern .shared .align 16 .b8 dynamic[];
.visible .entry mixed(.param .u8 a, .param .u64 b, .param .u32 c, .param .align 4 .b8 d[12]) { ret; }
.visible .entry last_shared(.param .u64 to, .param .u32 bytes) {
  .reg .b64 %rd<2>;
  .reg .b32 %r<5>;
  .shared .align 16 .b8 fixed[1024];
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [bytes];
  mov.u32 %r2, dynamic;
  add.u32 %r2, %r2, %r1;
  mov.u32 %r3, 77;
  st.shared.u32 [%r2+-4], %r3;
  mov.u32 %r4, 11;
  st.shared.u32 [fixed+1020], %r4;
  ld.shared.u32 %r3, [%r2+-4];
  st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
)";

class LaunchTest : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    ASSERT_EQ(cuModuleLoadData(&shapes_, kShapes.c_str()), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&nothing_, (kPtxHead + ".visible .entry nothing() { ret; }").c_str()), CUDA_SUCCESS);
    CUfunction const function = Function(nothing_, "nothing");
    launch_ = [=, this](std::array<unsigned int, 3> grid, std::array<unsigned int, 3> block, unsigned int shared) {
      return cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream_, nullptr,
                            nullptr);
    };
  }

  static int Attribute(CUfunction function, CUfunction_attribute attribute) {
    int value = -1;
    EXPECT_EQ(cuFuncGetAttribute(&value, attribute, function), CUDA_SUCCESS);
    return value;
  }

  static int DeviceAttribute(CUdevice_attribute attribute) {
    int value = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&value, attribute, 0), CUDA_SUCCESS);
    return value;
  }

  CUresult LaunchShared(unsigned int bytes) {
    void* parameters[] = {&word_, &bytes};
    return cuLaunchKernel(Function(shapes_, "last_shared"), 1, 1, 1, 1, 1, 1, bytes, stream_, parameters, nullptr);
  }

  CUmodule shapes_ = nullptr;
  CUmodule nothing_ = nullptr;
  std::function<CUresult(std::array<unsigned int, 3>, std::array<unsigned int, 3>, unsigned int)> launch_;
};

// cuFuncGetParamInfo: it returns each parameter's offset and size, and CUDA_ERROR_INVALID_VALUE one past the last.
TEST_F(LaunchTest, ParametersLieWhereTheirAlignmentPutsThem) {
  CUfunction const function = Function(shapes_, "mixed");
  using Place = std::pair<size_t, size_t>;
  std::vector<Place> places;
  size_t offset = 0;
  size_t bytes = 0;
  size_t index = 0;
  for (; cuFuncGetParamInfo(function, index, &offset, &bytes) == CUDA_SUCCESS; ++index) {
    places.emplace_back(offset, bytes);
  }
  EXPECT_EQ(places, (std::vector<Place>{{0, 1}, {8, 8}, {16, 4}, {20, 12}}));
  EXPECT_EQ(cuFuncGetParamInfo(function, index, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetParamInfo(function, 0, &offset, nullptr), CUDA_SUCCESS);
}

// cuLaunchKernel: parameters come as pointers, or as one buffer by `extra`, but not as both.
TEST_F(LaunchTest, ParametersMayBeOneBuffer) {
  struct {
    CUdeviceptr at;
    uint32_t value;
  } buffer = {word_, 21};
  size_t bytes = sizeof(buffer);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void* parameters[] = {&buffer.at, &buffer.value};
  CUfunction const store = Function(module_, "store");
  ASSERT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 21U);
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, extra), CUDA_ERROR_INVALID_VALUE);
  bytes = 8;
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
}

// Programming Guide, Compute Capabilities: blocks and grids have limits; a dimension of zero is
// CUDA_ERROR_INVALID_VALUE.
TEST_F(LaunchTest, BlocksAndGridsHaveLimits) {
  EXPECT_EQ(launch_({1, 1, 1}, {1024, 1, 1}, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch_({1, 1, 1}, {1025, 1, 1}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_({1, 1, 1}, {32, 32, 2}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_({1, 1, 1}, {1, 1, 64}, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch_({1, 1, 1}, {1, 1, 65}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_({0x80000000U, 1, 1}, {1, 1, 1}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_({1, 65536, 1}, {1, 1, 1}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_({1, 1, 65536}, {1, 1, 1}, 0), CUDA_ERROR_INVALID_VALUE);
  for (size_t axis = 0; axis < 3; ++axis) {
    std::array<unsigned int, 3> shape = {1, 1, 1};
    shape[axis] = 0;
    EXPECT_EQ(launch_(shape, {1, 1, 1}, 0), CUDA_ERROR_INVALID_VALUE) << axis;
    EXPECT_EQ(launch_({1, 1, 1}, shape, 0), CUDA_ERROR_INVALID_VALUE) << axis;
  }
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

// CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: a launch with more threads fails.
TEST_F(LaunchTest, AKernelsOwnBoundIsHeld) {
  CUfunction const bounded = Function(shapes_, "bounded");
  EXPECT_EQ(Attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
  EXPECT_EQ(cuLaunchKernel(bounded, 1, 1, 1, 64, 1, 1, 0, stream_, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(bounded, 1, 1, 1, 65, 1, 1, 0, stream_, nullptr, nullptr),
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: a kernel must ask for more than 48 KB of shared memory, static
// memory included, and gets up to CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN.
TEST_F(LaunchTest, MoreSharedMemoryMustBeAskedFor) {
  CUfunction const function = Function(shapes_, "last_shared");
  const int most = DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(Attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 1024);
  EXPECT_EQ(LaunchShared(47 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(LaunchShared(47 * 1024 + 4), CUDA_ERROR_INVALID_VALUE);
  const auto set = [&](int bytes) {
    return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  };
  EXPECT_EQ(set(most), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set(-1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(set(most - 1024), CUDA_SUCCESS);
  ASSERT_EQ(LaunchShared(static_cast<unsigned int>(most) - 1024), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 77U);
  EXPECT_EQ(LaunchShared(static_cast<unsigned int>(most) - 1020), CUDA_ERROR_INVALID_VALUE);
}

// cuOccupancyMaxActiveBlocksPerMultiprocessor: threads and shared memory limit the blocks; the related functions agree.
TEST_F(LaunchTest, OccupancyFollowsThreadsAndSharedMemory) {
  CUfunction const function = Function(shapes_, "last_shared");
  const auto blocks = [&](int threads, size_t shared) {
    int count = -1;
    EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, threads, shared), CUDA_SUCCESS);
    return count;
  };
  EXPECT_EQ(blocks(1024, 0), DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / 1024);
  EXPECT_EQ(blocks(32, 0), DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
  EXPECT_EQ(blocks(32, 100 * 1024), 2);
  EXPECT_EQ(blocks(1025, 0), 0);
  for (const int count : {1, 2, 3, 5}) {
    size_t bytes = 0;
    ASSERT_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, count, 32), CUDA_SUCCESS);
    EXPECT_GE(blocks(32, bytes), count);
  }
  int count = 0;
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, 0, 0), CUDA_ERROR_INVALID_VALUE);
  int grid = 0;
  int block = 0;
  ASSERT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 128), CUDA_SUCCESS);
  EXPECT_GE(128, block);
  EXPECT_EQ(grid, blocks(block, 0) * DeviceAttribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

// cuLaunchCooperativeKernel: the launch must not have more blocks than fit on the device at once.
TEST_F(LaunchTest, CooperativeLaunchesMustFit) {
  CUfunction const function = Function(nothing_, "nothing");
  int each = 0;
  ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, function, 128, 0), CUDA_SUCCESS);
  const auto fit = static_cast<unsigned int>(each * DeviceAttribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(cuLaunchCooperativeKernel(function, fit, 1, 1, 128, 1, 1, 0, stream_, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchCooperativeKernel(function, fit + 1, 1, 1, 128, 1, 1, 0, stream_, nullptr),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

// cuLaunchKernelEx: PTX has no clusters of several blocks here, and the log names them. CUDA C++ Programming Guide,
// Thread Block Clusters: the grid is a multiple of the clusters, and a function must allow more than 8 blocks.
TEST_F(LaunchTest, ClustersOfPtxAreRefusedByName) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config = {};
  config.gridDimX = 2;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CUfunction const function = Function(nothing_, "nothing");
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(software_gpu_control()->log(), testing::HasSubstr("refused: a cluster of blocks"));
  attribute.value.clusterDim = {1, 1, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_SUCCESS);
  attribute.value.clusterDim = {0, 1, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  attribute.value.clusterDim = {3, 1, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  config.gridDimX = 16;
  attribute.value.clusterDim = {16, 1, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ASSERT_EQ(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
}

// cuLaunchKernel: invalid handles are errors.
TEST_F(LaunchTest, HandlesAreChecked) {
  EXPECT_EQ(LaunchFunction(nullptr, stream_, word_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(LaunchStore(reinterpret_cast<CUstream>(module_), word_, 1), CUDA_ERROR_INVALID_HANDLE);
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
  CUstream const foreign = Stream();
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(LaunchStore(foreign, word_, 1), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace callout::software_gpu
