// SPDX-License-Identifier: Apache-2.0
//
// Tests errors of kernels (Driver API, CUresult: "this leaves the process in an inconsistent state and any further CUDA
// work will return the same error").
#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

const std::string kFaulty = kPtxHead + R"(
.visible .entry shared_beyond() {
  .reg .b32 %r<2>;
  .shared .align 4 .b8 fixed[16];
  ld.shared.u32 %r1, [fixed+400000];
  ret;
}
.visible .entry local_misaligned() {
  .local .align 8 .b8 own[16];
  .reg .b64 %rd<2>;
  ld.local.u64 %rd1, [own+4];
  ret;
}
.visible .entry trap_now() { trap; }
)";

using FaultTest = DriverFixture;

// CUDA_ERROR_MISALIGNED_ADDRESS: an address must be a multiple of the access's size (PTX ISA, Addresses as Operands).
TEST_F(FaultTest, MisalignedAddressesAreAnError) {
  ASSERT_EQ(LaunchStore(stream_, word_ + 4, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, word_ + 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(FaultTest, MisalignedAddressesOfOtherSpacesAreAnError) {
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kFaulty.c_str()), CUDA_SUCCESS);
  ASSERT_EQ(LaunchFunction(Function(module, "local_misaligned"), stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_MISALIGNED_ADDRESS);
}

// CUDA_ERROR_ILLEGAL_ADDRESS: addresses one byte beyond an allocation, null, and host memory are illegal.
TEST_F(FaultTest, AddressesBeyondAnAllocationAreIllegal) {
  const CUdeviceptr memory = Allocate(1024);
  ASSERT_EQ(LaunchStore(stream_, memory + 1020, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, memory + 1024, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, NullIsIllegal) {
  ASSERT_EQ(LaunchStore(stream_, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, MemoryOfTheHostIsIllegal) {
  static uint32_t own = 3;
  ASSERT_EQ(LaunchStore(stream_, reinterpret_cast<CUdeviceptr>(&own), 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(own, 3U);
}

TEST_F(FaultTest, SharedMemoryThatABlockDoesNotHaveIsIllegal) {
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kFaulty.c_str()), CUDA_SUCCESS);
  ASSERT_EQ(LaunchFunction(Function(module, "shared_beyond"), stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// PTX ISA, trap: it aborts execution, with CUDA_ERROR_ILLEGAL_INSTRUCTION or CUDA_ERROR_LAUNCH_FAILED.
TEST_F(FaultTest, TrapsAreAnErrorThatStays) {
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kFaulty.c_str()), CUDA_SUCCESS);
  ASSERT_EQ(LaunchFunction(Function(module, "trap_now"), stream_), CUDA_SUCCESS);
  const CUresult result = cuStreamSynchronize(stream_);
  EXPECT_TRUE(result == CUDA_ERROR_ILLEGAL_INSTRUCTION || result == CUDA_ERROR_LAUNCH_FAILED) << result;
  EXPECT_EQ(cuCtxSynchronize(), result);
}

// Every later call returns the error, and queued work does not run.
TEST_F(FaultTest, AnErrorStays) {
  CUstream const other = Stream();
  uint32_t* seen = nullptr;
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&seen), 4, 0), CUDA_SUCCESS);
  *seen = 0;
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, reinterpret_cast<CUdeviceptr>(seen), 1), CUDA_SUCCESS);
  Open();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(*seen, 0U);
  EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(LaunchFunction(nullptr, other), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemFree(word_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Contexts do not share errors.
TEST_F(FaultTest, AnErrorIsOfOneContext) {
  CUcontext second = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  ASSERT_EQ(LaunchStore(stream_, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(cuCtxPushCurrent(second), CUDA_SUCCESS);
  const CUdeviceptr memory = Allocate();
  EXPECT_EQ(cuMemsetD32(memory, 4, 1), CUDA_SUCCESS);
  EXPECT_EQ(Read(memory), 4U);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// cuDevicePrimaryCtxReset makes the device as new.
TEST_F(FaultTest, AResetEndsAnError) {
  ASSERT_EQ(LaunchStore(stream_, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&gate_), sizeof(*gate_), 0), CUDA_SUCCESS);
}

// An error of a call's arguments affects no later call.
TEST_F(FaultTest, ErrorsOfCallsDoNotStay) {
  EXPECT_EQ(LaunchStore(reinterpret_cast<CUstream>(module_), word_, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemFree(word_ + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace callout::software_gpu
