// SPDX-License-Identifier: Apache-2.0
//
// Tests stream-ordered memory (Driver API, Stream Ordered Memory Allocator).
#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

class PoolTest : public DriverFixture {
 protected:
  CUdeviceptr AllocateInOrder(size_t bytes = 256) {
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAllocAsync(&memory, bytes, stream_), CUDA_SUCCESS);
    return memory;
  }

  static uint64_t Used(CUmemoryPool pool) {
    cuuint64_t bytes = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes), CUDA_SUCCESS);
    return bytes;
  }

  CUmemoryPool Pool() {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    return pool;
  }
};

// cuMemAllocAsync: work queued after it may use the memory. cuMemFreeAsync: work queued before it may use the memory.
TEST_F(PoolTest, MemoryIsThereBetweenItsAllocationAndItsFree) {
  Close(stream_);
  const CUdeviceptr memory = AllocateInOrder();
  ASSERT_EQ(LaunchStore(stream_, memory, 6), CUDA_SUCCESS);
  ASSERT_EQ(LaunchLoad(stream_, word_, memory), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 6U);
}

// cuMemFreeAsync: work queued after it must not use the memory. Here, a kernel that does is an error of the device.
TEST_F(PoolTest, UseAfterTheFreeIsRefused) {
  const CUdeviceptr memory = AllocateInOrder();
  ASSERT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, memory, 6), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(PoolTest, CopiesThatAreQueuedBehindTheFreeAreRefused) {
  const CUdeviceptr memory = AllocateInOrder();
  Close(stream_);
  ASSERT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync(word_, memory, 4, stream_), CUDA_SUCCESS);
  Open();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(PoolTest, CopiesAfterTheFreeAreRefused) {
  const CUdeviceptr memory = AllocateInOrder();
  ASSERT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoDAsync(word_, memory, 4, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(memory, stream_), CUDA_ERROR_INVALID_VALUE);
}

// Memory is not allocated again before its free has run.
TEST_F(PoolTest, MemoryIsReusedWhenItsFreeHasRun) {
  const CUdeviceptr first = AllocateInOrder();
  Close(stream_);
  ASSERT_EQ(cuMemFreeAsync(first, stream_), CUDA_SUCCESS);
  EXPECT_NE(AllocateInOrder(), first);
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(AllocateInOrder(), first);
}

// Programming Guide, Stream Ordered Memory Allocator: cuMemFree also frees stream-ordered memory, and cuMemFreeAsync
// also frees memory of cuMemAlloc.
TEST_F(PoolTest, BothFreesTakeBothKinds) {
  const CUdeviceptr ordered = AllocateInOrder();
  EXPECT_EQ(cuMemFree(ordered), CUDA_SUCCESS);
  const CUdeviceptr plain = Allocate();
  EXPECT_EQ(cuMemFreeAsync(plain, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(gate_), stream_), CUDA_ERROR_INVALID_VALUE);
}

// cuMemAllocAsync: zero bytes are CUDA_ERROR_INVALID_VALUE.
TEST_F(PoolTest, NothingIsNotAllocated) {
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAllocAsync(&memory, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocAsync(&memory, size_t{1} << 50, stream_), CUDA_ERROR_OUT_OF_MEMORY);
}

// cuDeviceSetMemPool, cuMemPoolDestroy: allocations come from the current pool; the default pool replaces a destroyed
// one.
TEST_F(PoolTest, AllocationsComeFromTheCurrentPool) {
  CUmemoryPool const pool = Pool();
  CUmemoryPool standard = nullptr;
  CUmemoryPool current = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&standard, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetMemPool(&current, 0), CUDA_SUCCESS);
  EXPECT_EQ(current, standard);
  ASSERT_EQ(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceSetMemPool(1, pool), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr memory = AllocateInOrder(1024);
  EXPECT_EQ(Used(pool), 1024U);
  EXPECT_EQ(Used(standard), 0U);
  CUmemoryPool owner = nullptr;
  ASSERT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory), CUDA_SUCCESS);
  EXPECT_EQ(owner, pool);
  ASSERT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Used(pool), 0U);
  ASSERT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetMemPool(&current, 0), CUDA_SUCCESS);
  EXPECT_EQ(current, standard);
  EXPECT_EQ(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

// cuMemPoolDestroy: allocated memory stays until it is freed.
TEST_F(PoolTest, MemoryOutlivesItsPool) {
  CUmemoryPool const pool = Pool();
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&memory, 64, pool, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, memory, 9), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(memory), 9U);
  EXPECT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&other, 64, pool, stream_), CUDA_ERROR_INVALID_VALUE);
}

// CUmemPool_attribute: a new pool has a release threshold of 0 and allows reuse of every kind.
TEST_F(PoolTest, AttributesAreReadBack) {
  CUmemoryPool const pool = Pool();
  cuuint64_t threshold = 1;
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
  EXPECT_EQ(threshold, 0U);
  threshold = UINT64_MAX;
  ASSERT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
  threshold = 0;
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
  EXPECT_EQ(threshold, UINT64_MAX);
  int reuse = 0;
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse), CUDA_SUCCESS);
  EXPECT_EQ(reuse, 1);
}

// cuMemPoolGetAttribute: USED_MEM_HIGH is the highest use since it was set to zero.
TEST_F(PoolTest, TheHighestUseIsRemembered) {
  CUmemoryPool const pool = Pool();
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&memory, 4096, pool, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(memory, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  cuuint64_t most = 0;
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &most), CUDA_SUCCESS);
  EXPECT_EQ(most, 4096U);
  most = 0;
  ASSERT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &most), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &most), CUDA_SUCCESS);
  EXPECT_EQ(most, 0U);
}

}  // namespace
}  // namespace callout::software_gpu
