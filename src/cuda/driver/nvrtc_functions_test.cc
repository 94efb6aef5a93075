// SPDX-License-Identifier: Apache-2.0
//
// Compares Callout's declarations with NVIDIA's, if NVIDIA's header is installed. Compiling this file is the test.
#include "cuda/driver/nvrtc.h"

#include <gtest/gtest.h>

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

#include "testing/same_function.h"

namespace callout::internal::cuda {
namespace {

#define CALLOUT_NVRTC_COMPARE(name, parameters) \
  static_assert(SameFunction<decltype(NvrtcFunctions::name), decltype(&::nvrtc##name)>::value, #name);
CALLOUT_NVRTC_FUNCTIONS(CALLOUT_NVRTC_COMPARE)
#undef CALLOUT_NVRTC_COMPARE
static_assert(SameFunction<decltype(NvrtcFunctions::GetErrorString), decltype(&::nvrtcGetErrorString)>::value);

#define CALLOUT_NVRTC_SAME(name) static_assert(static_cast<int>(cuda::name) == static_cast<int>(::name));
CALLOUT_NVRTC_SAME(NVRTC_SUCCESS)
CALLOUT_NVRTC_SAME(NVRTC_ERROR_OUT_OF_MEMORY)
CALLOUT_NVRTC_SAME(NVRTC_ERROR_INVALID_INPUT)
CALLOUT_NVRTC_SAME(NVRTC_ERROR_INVALID_OPTION)
CALLOUT_NVRTC_SAME(NVRTC_ERROR_COMPILATION)
CALLOUT_NVRTC_SAME(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID)
#undef CALLOUT_NVRTC_SAME

TEST(NvrtcFunctionsTest, AreThoseOfTheInstalledHeader) { EXPECT_EQ(sizeof(nvrtcProgram), sizeof(::nvrtcProgram)); }

}  // namespace
}  // namespace callout::internal::cuda
#else
TEST(NvrtcFunctionsTest, AreThoseOfTheInstalledHeader) { GTEST_SKIP() << "nvrtc.h is not installed"; }
#endif
