// SPDX-License-Identifier: Apache-2.0
//
// An image for tests of the software driver.
#include <algorithm>
#include <cstring>

#include "driver/software_gpu.h"
#include "driver/tensor_map_layout.h"

namespace {

template <typename T>
T Read(const void* parameter) {
  T value;
  std::memcpy(&value, parameter, sizeof(value));
  return value;
}

unsigned int GlobalIndex(const SoftwareGpuLaunch* launch) {
  return launch->block_index[0] * launch->block[0] + launch->thread_index[0];
}

// scale(float* data, float by, uint32_t count): multiplies the first `count` elements.
int Scale(const SoftwareGpuLaunch* launch, void** parameters) {
  const unsigned int index = GlobalIndex(launch);
  if (index >= Read<uint32_t>(parameters[2])) return 0;
  Read<float*>(parameters[0])[index] *= Read<float>(parameters[1]);
  return 0;
}

// coordinates(uint64_t* out): each thread writes its coordinates.
int Coordinates(const SoftwareGpuLaunch* launch, void** parameters) {
  uint64_t row = 0;
  uint64_t value = 0;
  for (int axis = 2; axis >= 0; --axis) {
    const uint64_t index = uint64_t{launch->block_index[axis]} * launch->block[axis] + launch->thread_index[axis];
    row = row * launch->grid[axis] * launch->block[axis] + index;
    value = value << 8 | index;
  }
  Read<uint64_t*>(parameters[0])[row] = value;
  return 0;
}

// sum_shared(float* out): fills the block's dynamic shared memory and sums it up.
int SumShared(const SoftwareGpuLaunch* launch, void** parameters) {
  auto* const shared = static_cast<unsigned char*>(launch->shared);
  std::fill_n(shared, launch->shared_bytes, 1);
  float sum = 0;
  for (unsigned int i = 0; i < launch->shared_bytes; ++i) sum += shared[i];
  *Read<float*>(parameters[0]) = sum;
  return 0;
}

int Fault(const SoftwareGpuLaunch*, void**) { return 700; }

int RaiseError(const SoftwareGpuLaunch* launch, void**) {
  const int32_t code = 17;
  std::memcpy(launch->global("error_code"), &code, sizeof(code));
  return 0;
}

// append(uint32_t* log, uint32_t value): the log's first word is its length.
int Append(const SoftwareGpuLaunch*, void** parameters) {
  auto* const log = Read<uint32_t*>(parameters[0]);
  log[++log[0]] = Read<uint32_t>(parameters[1]);
  return 0;
}

// set_conditional(uint64_t handle, const uint32_t* value): sets the condition to *value.
int SetConditional(const SoftwareGpuLaunch* launch, void** parameters) {
  return launch->set_conditional(Read<uint64_t>(parameters[0]), *Read<uint32_t*>(parameters[1]));
}

// count_down(uint64_t handle, uint32_t* left): decrements *left, and sets the condition to whether any are left.
int CountDown(const SoftwareGpuLaunch* launch, void** parameters) {
  auto* const left = Read<uint32_t*>(parameters[1]);
  return launch->set_conditional(Read<uint64_t>(parameters[0]), --*left != 0 ? 1 : 0);
}

// copy_box(float* out, CUtensorMap map): copies the box at the array's beginning, of two axes, with the map's steps.
// Elements beyond the array's end are zeros.
int CopyBox(const SoftwareGpuLaunch*, void** parameters) {
  const auto map = Read<callout::software_gpu::TensorMapLayout>(parameters[1]);
  const auto* const from = reinterpret_cast<const char*>(map.address);
  auto* out = Read<float*>(parameters[0]);
  for (unsigned int row = 0; row < map.box[1]; row += map.element_strides[1]) {
    for (unsigned int column = 0; column < map.box[0]; column += map.element_strides[0]) {
      const bool inside = row < map.dims[1] && column < map.dims[0];
      *out++ = inside ? Read<float>(from + row * map.strides[0] + column * sizeof(float)) : 0;
    }
  }
  return 0;
}

constexpr size_t kScaleBytes[] = {8, 4, 4};
constexpr size_t kPointerBytes[] = {8};
constexpr size_t kCopyBoxBytes[] = {8, 128};
constexpr size_t kAppendBytes[] = {8, 4};
constexpr size_t kConditionalBytes[] = {8, 8};
constexpr SoftwareGpuKernel kKernels[] = {
    {"scale", &Scale, 3, kScaleBytes, 0, 0},
    {"coordinates", &Coordinates, 1, kPointerBytes, 0, 0},
    {"sum_shared", &SumShared, 1, kPointerBytes, 0, 1024},
    {"small_blocks", &Coordinates, 1, kPointerBytes, 64, 0},
    {"of_two", &Coordinates, 1, kPointerBytes, 0, 0, 2},
    {"of_sixteen", &Coordinates, 1, kPointerBytes, 0, 0, 16},
    {"fault", &Fault, 0, nullptr, 0, 0},
    {"append", &Append, 2, kAppendBytes, 0, 0},
    {"set_conditional", &SetConditional, 2, kConditionalBytes, 0, 0},
    {"count_down", &CountDown, 2, kConditionalBytes, 0, 0},
    {"copy_box", &CopyBox, 2, kCopyBoxBytes, 0, 0},
    {"raise_error", &RaiseError, 0, nullptr, 0, 0},
};
constexpr SoftwareGpuGlobal kGlobals[] = {{"error_code", 4}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const SoftwareGpuImage software_gpu_image = {
    .kernel_count = sizeof(kKernels) / sizeof(kKernels[0]),
    .kernels = kKernels,
    .global_count = 1,
    .globals = kGlobals,
};
