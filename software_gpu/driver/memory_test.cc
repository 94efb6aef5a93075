// SPDX-License-Identifier: Apache-2.0
//
// Tests memory that is allocated and freed synchronously, and queries of addresses. Each comment begins with the
// section of CUDA's documents that states the rule.
#include <array>
#include <cstdlib>
#include <memory>

#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

using MemoryTest = DriverFixture;

// Driver API, cuMemAlloc: zero bytes are CUDA_ERROR_INVALID_VALUE. Programming Guide, Device Memory Accesses: the
// address of an allocation is aligned to at least 256 bytes.
TEST_F(MemoryTest, AllocationsAreAlignedAndNeverEmpty) {
  for (const size_t bytes : {1, 3, 255, 257}) EXPECT_EQ(Allocate(bytes) % 256, 0U) << bytes;
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(&memory, size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

// Driver API, cuMemGetInfo: it returns the free memory in bytes.
TEST_F(MemoryTest, FreeMemoryIsCounted) {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  const CUdeviceptr memory = Allocate(size_t{1} << 20);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(before - after, size_t{1} << 20);
  ASSERT_EQ(cuMemFree(memory), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(before, after);
}

// Driver API, cuMemFree: the address must have been returned by an allocation.
TEST_F(MemoryTest, OnlyWhatWasAllocatedIsFreedAndOnce) {
  const CUdeviceptr memory = Allocate();
  EXPECT_EQ(cuMemFree(memory + 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(gate_)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  uint32_t value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, memory, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy(word_, memory, 4), CUDA_ERROR_INVALID_VALUE);
}

// Driver API: cuMemFree and cuMemFreeHost may wait for queued work, and programs rely on it.
TEST_F(MemoryTest, FreeingWaitsForWork) {
  const CUdeviceptr memory = Allocate();
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, memory, 1), CUDA_SUCCESS);
  CUresult freed = CUDA_ERROR_UNKNOWN;
  std::thread thread = Begin("cuMemFree", &freed, [=] { return cuMemFree(memory); });
  Open();
  thread.join();
  EXPECT_EQ(freed, CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_F(MemoryTest, FreeingPinnedMemoryWaitsForWork) {
  void* memory = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&memory, 256, 0), CUDA_SUCCESS);
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, reinterpret_cast<CUdeviceptr>(memory), 1), CUDA_SUCCESS);
  CUresult freed = CUDA_ERROR_UNKNOWN;
  std::thread thread = Begin("cuMemFreeHost", &freed, [=] { return cuMemFreeHost(memory); });
  Open();
  thread.join();
  EXPECT_EQ(freed, CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

// Driver API, cuMemFreeHost: it frees memory of cuMemAllocHost or cuMemHostAlloc, and no other.
TEST_F(MemoryTest, FreeHostTakesPinnedMemoryOnly) {
  void* memory = nullptr;
  ASSERT_EQ(cuMemAllocHost(&memory, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(static_cast<char*>(memory) + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemFreeHost(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
  uint32_t own = 0;
  EXPECT_EQ(cuMemFreeHost(&own), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostAlloc(&memory, 64, 0x80), CUDA_ERROR_INVALID_VALUE);
}

// Driver API, cuMemHostRegister and cuMemHostUnregister: memory is registered once and unregistered once.
TEST_F(MemoryTest, MemoryIsRegisteredOnceAndUnregisteredOnce) {
  alignas(4096) static std::array<char, 8192> memory;
  ASSERT_EQ(cuMemHostRegister(memory.data(), 8192, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister(memory.data(), 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(memory.data() + 4096, 4096, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(memory.data() + 4096), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemFreeHost(memory.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(memory.data(), 4096, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
}

// Driver API, cuMemHostRegister: after it, kernels can access the memory, and copies are asynchronous.
TEST_F(MemoryTest, KernelsReachRegisteredMemoryAndNoOther) {
  alignas(64) static std::array<uint32_t, 16> memory;
  ASSERT_EQ(cuMemHostRegister(memory.data(), sizeof(memory), 0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemHostGetDevicePointer(&address, memory.data(), 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, address, 7), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(memory[0], 7U);
  ASSERT_EQ(cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostGetDevicePointer(&address, memory.data(), 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(LaunchStore(stream_, address, 8), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(memory[0], 7U);
}

// Driver API, API synchronization behavior: a copy from pageable memory has read it when the call returns; a copy from
// pinned memory has not.
TEST_F(MemoryTest, PageableMemoryIsReadByTheCallAndPinnedMemoryLater) {
  uint32_t pageable = 1;
  uint32_t* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 4, 0), CUDA_SUCCESS);
  *pinned = 1;
  Close(stream_);
  ASSERT_EQ(cuMemcpyHtoDAsync(word_, &pageable, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(word_ + 4, pinned, 4, stream_), CUDA_SUCCESS);
  pageable = *pinned = 2;
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 1U);
  EXPECT_EQ(Read(word_ + 4), 2U);
}

template <typename T>
T Ask(CUpointer_attribute attribute, CUdeviceptr address) {
  T value = {};
  EXPECT_EQ(cuPointerGetAttribute(&value, attribute, address), CUDA_SUCCESS) << attribute;
  return value;
}

// Driver API, Unified Addressing, cuPointerGetAttribute: it returns the kind of an address.
TEST_F(MemoryTest, AddressesAreKnownByTheirKind) {
  void* host = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&host, 64, 0), CUDA_SUCCESS);
  static uint32_t registered;
  ASSERT_EQ(cuMemHostRegister(&registered, 4, 0), CUDA_SUCCESS);
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  struct Case {
    CUdeviceptr address;
    unsigned int type;
    unsigned int managed;
    CUresult host;
  };
  const auto at = [](void* memory) { return reinterpret_cast<CUdeviceptr>(memory); };
  for (const Case& known :
       {Case{Allocate(), CU_MEMORYTYPE_DEVICE, 0, CUDA_ERROR_INVALID_VALUE},
        Case{at(host), CU_MEMORYTYPE_HOST, 0, CUDA_SUCCESS}, Case{at(&registered), CU_MEMORYTYPE_HOST, 0, CUDA_SUCCESS},
        Case{managed, CU_MEMORYTYPE_DEVICE, 1, CUDA_SUCCESS}}) {
    EXPECT_EQ(Ask<unsigned int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, known.address), known.type);
    EXPECT_EQ(Ask<unsigned int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, known.address), known.managed);
    EXPECT_EQ(Ask<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, known.address), context_);
    EXPECT_EQ(Ask<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, known.address), 0);
    EXPECT_EQ(Ask<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, known.address + 3), known.address);
    EXPECT_EQ(Ask<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, known.address + 3), known.address + 3);
    void* there = nullptr;
    EXPECT_EQ(cuPointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_HOST_POINTER, known.address), known.host);
  }
  ASSERT_EQ(cuMemHostUnregister(&registered), CUDA_SUCCESS);
}

// Driver API, CU_POINTER_ATTRIBUTE_BUFFER_ID: the id is unique in the process, even if an address is reused.
TEST_F(MemoryTest, BuffersAtTheSameAddressAreTold) {
  const CUdeviceptr first = Allocate();
  const auto id = Ask<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, first);
  ASSERT_EQ(cuMemFree(first), CUDA_SUCCESS);
  const CUdeviceptr second = Allocate();
  ASSERT_EQ(first, second);
  EXPECT_NE(Ask<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, second), id);
}

// Driver API, cuPointerGetAttributes: unlike cuPointerGetAttribute, it returns zeros for an unknown address.
TEST_F(MemoryTest, UnknownAddressesAreAnErrorOfOneQuestionAndZerosOfMany) {
  uint32_t own = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(&own);
  unsigned int type = 9;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), CUDA_ERROR_INVALID_VALUE);
  CUcontext context = context_;
  unsigned int managed = 9;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* values[] = {&context, &type, &managed};
  EXPECT_EQ(cuPointerGetAttributes(3, attributes, values, address), CUDA_SUCCESS);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(managed, 0U);
}

// Driver API, cuMemGetAddressRange: it returns the allocation that holds an address.
TEST_F(MemoryTest, AnAddressFindsItsAllocation) {
  const CUdeviceptr memory = Allocate(1000);
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuMemGetAddressRange(&begin, &bytes, memory + 999), CUDA_SUCCESS);
  EXPECT_EQ(begin, memory);
  EXPECT_EQ(bytes, 1000U);
  EXPECT_EQ(cuMemGetAddressRange(&begin, &bytes, memory + 1000), CUDA_ERROR_NOT_FOUND);
}

}  // namespace
}  // namespace callout::software_gpu
