// SPDX-License-Identifier: Apache-2.0
//
// Tests reserved addresses and physical memory (Driver API and Programming Guide, Virtual Memory Management).
#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

class VirtualMemoryTest : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    ASSERT_EQ(cuMemGetAllocationGranularity(&page_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAddressReserve(&address_, 2 * page_, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemCreate(&handle_, page_, &properties_, 0), CUDA_SUCCESS);
  }

  CUresult Map(CUdeviceptr at) { return cuMemMap(at, page_, 0, handle_, 0); }

  CUresult Allow(CUdeviceptr at, int device, CUmemAccess_flags flags, size_t pages = 1) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, flags};
    return cuMemSetAccess(at, pages * page_, &access, 1);
  }

  unsigned long long Rights(CUdeviceptr at, int device) {
    const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    unsigned long long flags = 99;
    EXPECT_EQ(cuMemGetAccess(&flags, &location, at), CUDA_SUCCESS);
    return flags;
  }

  CUmemAllocationProp properties_ = {};
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  size_t page_ = 0;
};

// cuMemCreate, cuMemAddressReserve, cuMemMap: sizes and addresses are multiples of the granularity.
TEST_F(VirtualMemoryTest, EverythingIsAMultipleOfTheGranularity) {
  EXPECT_EQ(address_ % page_, 0U);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemCreate(&handle, page_ / 2, &properties_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &properties_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, page_ + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, page_, 3 * page_, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address_, page_ / 2, 0, handle_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address_ + 256, page_, 0, handle_, 0), CUDA_ERROR_INVALID_VALUE);
}

// cuMemMap: the size must fit the allocation, the offset be zero, and the address be reserved and not mapped.
TEST_F(VirtualMemoryTest, MemoryIsMappedOnceWhereItFits) {
  EXPECT_EQ(cuMemMap(address_, 2 * page_, 0, handle_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address_, page_, page_, handle_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address_ + 2 * page_, page_, 0, handle_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Map(address_), CUDA_SUCCESS);
  EXPECT_EQ(Map(address_), CUDA_ERROR_INVALID_VALUE);
}

// Programming Guide, Virtual Aliasing Support: one allocation mapped at several addresses is the same memory.
TEST_F(VirtualMemoryTest, AliasesAreTheSameMemory) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(Map(address_ + page_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 2), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, address_ + 16, 42), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(address_ + page_ + 16), 42U);
}

// cuMemRelease: memory lives while a handle is held or a mapping exists.
TEST_F(VirtualMemoryTest, MemoryOutlivesItsHandleWhileItIsMapped) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(address_, 5, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Map(address_ + page_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Read(address_), 5U);
  // cuMemRetainAllocationHandle returns the handle of mapped memory.
  ASSERT_EQ(cuMemRetainAllocationHandle(&handle_, reinterpret_cast<void*>(address_)), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(address_, page_), CUDA_SUCCESS);
  ASSERT_EQ(Map(address_ + page_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_ + page_, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  EXPECT_EQ(Read(address_ + page_), 5U);
}

// cuMemSetAccess: mapped memory may not be accessed before this call.
TEST_F(VirtualMemoryTest, MappedMemoryWithoutRightsIsRefused) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  EXPECT_EQ(Rights(address_, 0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  uint32_t value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, address_, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy(word_, address_, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(address_, 0, 4), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(LaunchLoad(stream_, word_, address_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// cuMemSetAccess: each device has rights of its own.
TEST_F(VirtualMemoryTest, EachDeviceHasItsOwnRights) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 1, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  EXPECT_EQ(Rights(address_, 0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(Rights(address_, 1), CU_MEM_ACCESS_FLAGS_PROT_READ);
  ASSERT_EQ(LaunchStore(stream_, address_, 3), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(address_), 3U);
  ASSERT_EQ(Allow(address_, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_SUCCESS);
  EXPECT_EQ(Rights(address_, 0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(Rights(address_, 1), CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST_F(VirtualMemoryTest, KernelsDoNotWriteWhatTheyMayOnlyRead) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  ASSERT_EQ(LaunchLoad(stream_, word_, address_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, address_, 3), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// cuMemUnmap, cuMemAddressFree: a mapping must be unmapped first, and as a whole.
TEST_F(VirtualMemoryTest, UnmappedMemoryIsRefused) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(address_, 2 * page_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address_, 2 * page_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemUnmap(address_, page_), CUDA_SUCCESS);
  uint32_t value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, address_, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy(word_, address_, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(address_, page_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(address_, 2 * page_), CUDA_SUCCESS);
  EXPECT_EQ(Map(address_), CUDA_ERROR_INVALID_VALUE);
}

// cuMemUnmap waits for the device (Driver API, cuMemUnmap: it synchronises as if by cuCtxSynchronize).
TEST_F(VirtualMemoryTest, UnmappingWaitsForWork) {
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, address_, 1), CUDA_SUCCESS);
  CUresult unmapped = CUDA_ERROR_UNKNOWN;
  std::thread thread = Begin("cuMemUnmap", &unmapped, [this] { return cuMemUnmap(address_, page_); });
  Open();
  thread.join();
  EXPECT_EQ(unmapped, CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

// Copies treat adjacent mapped ranges as one.
TEST_F(VirtualMemoryTest, CopiesGoOverSeveralMappings) {
  CUmemGenericAllocationHandle other = 0;
  ASSERT_EQ(cuMemCreate(&other, page_, &properties_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Map(address_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address_ + page_, page_, 0, other, 0), CUDA_SUCCESS);
  ASSERT_EQ(Allow(address_, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 2), CUDA_SUCCESS);
  const uint64_t value = 0x1122334455667788;
  uint64_t read = 0;
  ASSERT_EQ(cuMemcpyHtoD(address_ + page_ - 4, &value, 8), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(&read, address_ + page_ - 4, 8), CUDA_SUCCESS);
  EXPECT_EQ(read, value);
  EXPECT_EQ(cuMemcpyDtoH(&read, address_ + 2 * page_ - 4, 8), CUDA_ERROR_INVALID_VALUE);
}

// cuMemGetAllocationPropertiesFromHandle returns the properties. Other devices and kinds are refused.
TEST_F(VirtualMemoryTest, PropertiesAreThoseThatWereAskedFor) {
  CUmemAllocationProp read = {};
  ASSERT_EQ(cuMemGetAllocationPropertiesFromHandle(&read, handle_), CUDA_SUCCESS);
  EXPECT_EQ(read.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(read.location.id, 0);
  CUmemGenericAllocationHandle handle = 0;
  properties_.location.id = 2;
  EXPECT_EQ(cuMemCreate(&handle, page_, &properties_, 0), CUDA_ERROR_INVALID_DEVICE);
  properties_.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  EXPECT_EQ(cuMemCreate(&handle, page_, &properties_, 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace callout::software_gpu
