// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "testing/cuda_conformance.h"

namespace callout::internal::cuda {
namespace {

class MemoryConformance : public DriverConformance {};

constexpr size_t kBytes = 4096;

TEST_P(MemoryConformance, GoesToTheDeviceAndBack) {
  const Stream stream = NewStream();
  const DeviceMemory first = NewDeviceMemory(kBytes);
  const DeviceMemory second = NewDeviceMemory(kBytes);
  const PinnedMemory from = NewPinned(kBytes);
  const PinnedMemory to = NewPinned(kBytes);
  std::memset(from.get(), 7, kBytes);
  EXPECT_EQ(driver().MemcpyHtoDAsync(first.get(), from.get(), kBytes, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemsetD8Async(first.get() + 1, 9, 2, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemcpyDtoDAsync(second.get(), first.get(), kBytes, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemcpyDtoHAsync(to.get(), second.get(), kBytes, stream.get()), CUDA_SUCCESS);
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  const auto* bytes = static_cast<const unsigned char*>(to.get());
  EXPECT_EQ(bytes[0], 7);
  EXPECT_EQ(bytes[1], 9);
  EXPECT_EQ(bytes[2], 9);
  EXPECT_EQ(bytes[kBytes - 1], 7);
}

TEST_P(MemoryConformance, PinnedMemoryIsReadWhenTheCopyRunsAndOtherMemoryAtOnce) {
  CALLOUT_NEEDS_DOUBLE("a GPU runs the copy when it likes");
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(2);
  const PinnedMemory pinned = NewPinned(1);
  unsigned char pageable = 1;
  auto* const source = static_cast<unsigned char*>(pinned.get());
  *source = 1;
  fake()->hold();
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get(), source, 1, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get() + 1, &pageable, 1, stream.get()), CUDA_SUCCESS);
  *source = 2;
  pageable = 2;
  fake()->release();
  unsigned char got[2] = {};
  EXPECT_EQ(driver().MemcpyDtoHAsync(got, memory.get(), 2, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(got[0], 2) << "the change came before the copy";
  EXPECT_EQ(got[1], 1) << "the copy had its own";
}

TEST_P(MemoryConformance, WhatWasNotWaitedForIsNotThere) {
  CALLOUT_NEEDS_DOUBLE("a GPU may be done already");
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(1);
  const PinnedMemory pinned = NewPinned(1);
  const auto* const byte = static_cast<const unsigned char*>(pinned.get());
  fake()->hold();
  EXPECT_EQ(driver().MemsetD8Async(memory.get(), 3, 1, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemcpyDtoHAsync(pinned.get(), memory.get(), 1, stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(*byte, kSoftwareGpuFill);
  EXPECT_EQ(driver().StreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  fake()->release();
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  EXPECT_EQ(*byte, 3);
  EXPECT_EQ(driver().StreamQuery(stream.get()), CUDA_SUCCESS);
}

TEST_P(MemoryConformance, IsAskedForInBytesThatThereAre) {
  EXPECT_THAT(AllocateDevice(device(), 0), StatusIs(StatusCode::kInvalidArgument, "cuMemAlloc of 0 bytes on device 0"));
  EXPECT_THAT(AllocateDevice(device(), size_t{1} << 50),
              StatusIs(StatusCode::kResourceExhausted, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"));
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  constexpr size_t kLarge = size_t{64} << 20;
  EXPECT_EQ(driver().MemGetInfo(&before, &total), CUDA_SUCCESS);
  const DeviceMemory memory = NewDeviceMemory(kLarge);
  EXPECT_EQ(driver().MemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_LE(after + kLarge, before);
  EXPECT_LE(before, total);
}

TEST_P(MemoryConformance, AddressesThatAreNoneOfTheDeviceAreRefused) {
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(16);
  unsigned char host[16] = {};
  const auto not_device = reinterpret_cast<CUdeviceptr>(host);
  EXPECT_EQ(driver().MemsetD8Async(not_device, 0, 16, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver().MemFree(not_device), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver().MemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

TEST_P(MemoryConformance, CopiesOfTheWrongKindOrSizeAreRefused) {
  CALLOUT_NEEDS_DOUBLE("a GPU's driver forgives some of them");
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(16);
  void* const as_host = reinterpret_cast<void*>(memory.get());
  unsigned char host[32] = {};
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get(), as_host, 16, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver().MemcpyDtoHAsync(as_host, memory.get(), 16, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver().MemcpyDtoHAsync(host, memory.get(), 17, stream.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get() + 8, host, 9, stream.get()), CUDA_ERROR_INVALID_VALUE);
}

TEST_P(MemoryConformance, PinnedMemoryHasTheSameAddressOnTheDevice) {
  const PinnedMemory pinned = NewPinned(64);
  CUdeviceptr address = 0;
  EXPECT_EQ(driver().MemHostGetDevicePointer(&address, pinned.get(), 0), CUDA_SUCCESS);
  EXPECT_EQ(address, reinterpret_cast<CUdeviceptr>(pinned.get()));
}

using MemoryConformanceDeathTest = MemoryConformance;

TEST_P(MemoryConformanceDeathTest, TheHostCannotTouchADevicesMemory) {
  CALLOUT_NEEDS_DOUBLE("some machines let the host");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceMemory memory = NewDeviceMemory(16);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(memory.get()) = 1, "");
}

CALLOUT_CUDA_CONFORMANCE(MemoryConformance);
CALLOUT_CUDA_CONFORMANCE(MemoryConformanceDeathTest);

}  // namespace
}  // namespace callout::internal::cuda
