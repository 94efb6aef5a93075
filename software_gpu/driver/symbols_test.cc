// SPDX-License-Identifier: Apache-2.0
//
// Tests which function each version gets (Driver API, Driver Entry Point Access).
#include <cudaTypedefs.h>

#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

class SymbolTest : public DriverFixture {
 protected:
  template <typename Function>
  static Function Get(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    EXPECT_EQ(cuGetProcAddress(name, &function, version, flags, &status), CUDA_SUCCESS) << name << " " << version;
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
    return reinterpret_cast<Function>(function);
  }
};

// cuGetProcAddress: it returns the newest variant at the requested version.
TEST_F(SymbolTest, OldVersionsGetOldSignatures) {
  const auto old = Get<PFN_cuCtxGetDevice_v2000>("cuCtxGetDevice", 12000);
  const auto current = Get<PFN_cuCtxGetDevice_v13000>("cuCtxGetDevice", 13000);
  EXPECT_NE(reinterpret_cast<void*>(old), reinterpret_cast<void*>(current));
  CUdevice device = -1;
  ASSERT_EQ(old(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  CUcontext second = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  ASSERT_EQ(current(&device, second), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
}

// cuCtxSynchronize of CUDA 13 waits for the context that it is given.
TEST_F(SymbolTest, NewVersionsGetNewSignatures) {
  const auto synchronize = Get<PFN_cuCtxSynchronize_v13000>("cuCtxSynchronize", 13000);
  ASSERT_EQ(cuMemsetD32Async(word_, 6, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(synchronize(context_), CUDA_SUCCESS);
  EXPECT_EQ(synchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(synchronize(reinterpret_cast<CUcontext>(module_)), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
}

// cuGetProcAddress itself has two signatures; the newer one also returns why there is no function.
TEST_F(SymbolTest, TheGetterHasTwoSignatures) {
  void* function = nullptr;
  const auto old = Get<PFN_cuGetProcAddress_v11030>("cuGetProcAddress", 11080);
  ASSERT_EQ(old("cuInit", &function, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuInit));
  const auto current = Get<PFN_cuGetProcAddress_v12000>("cuGetProcAddress", 12000);
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(current("cuNothing", &function, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(current("cuGetProcAddress", &function, 11000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(current("cuInit", &function, 12000, 0x80, &status), CUDA_ERROR_INVALID_VALUE);
}

// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM: a null stream is the thread's own, so that the call does not wait for
// work of another thread.
TEST_F(SymbolTest, PerThreadVariantsUseTheThreadsOwnStream) {
  const auto launch = Get<PFN_cuStreamSynchronize_v7000_ptsz>("cuStreamSynchronize", 12000,
                                                              CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  CUstream const blocking = Stream(CU_STREAM_DEFAULT);
  Close(blocking);
  EXPECT_EQ(launch(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
  const auto query =
      Get<PFN_cuStreamGetId_v12000_ptsz>("cuStreamGetId", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  unsigned long long own = 0;
  unsigned long long per_thread = 1;
  unsigned long long legacy = 0;
  ASSERT_EQ(query(nullptr, &own), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetId(CU_STREAM_PER_THREAD, &per_thread), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetId(CU_STREAM_LEGACY, &legacy), CUDA_SUCCESS);
  EXPECT_EQ(own, per_thread);
  EXPECT_NE(own, legacy);
}

// cuGetErrorName, cuGetErrorString: an unknown error is CUDA_ERROR_INVALID_VALUE, with null.
TEST_F(SymbolTest, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  ASSERT_EQ(cuGetErrorName(CUDA_ERROR_MISALIGNED_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_MISALIGNED_ADDRESS");
  ASSERT_EQ(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

// software_gpu.h: a call of a function that is not implemented is logged.
TEST_F(SymbolTest, NamesThatAreNotWrittenAreLogged) {
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR descriptor = {16, 1, CU_AD_FORMAT_FLOAT, 1};
  EXPECT_EQ(cuArrayCreate(&array, &descriptor), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(software_gpu_control()->log(), testing::HasSubstr("cuArrayCreate"));
}

}  // namespace
}  // namespace callout::software_gpu
