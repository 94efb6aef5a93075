// SPDX-License-Identifier: Apache-2.0
//
// The functions of the driver, of the types that the table in src/transport/cuda declares, without CUDA's prefix.
#pragma once

#include "transport/cuda/driver_functions.h"

namespace callout::software_gpu {

using namespace callout::internal::cuda;

// What only others call.
#define CALLOUT_SOFTWARE_GPU_FOREIGN_FUNCTIONS(X)                                        \
  X(DeviceGetUuid, 11040, (char* uuid, CUdevice device))                                 \
  X(DevicePrimaryCtxGetState, 7000, (CUdevice device, unsigned int* flags, int* active)) \
  X(CtxSetCurrent, 4000, (CUcontext context))                                            \
  X(CtxGetDevice, 2000, (CUdevice * device))                                             \
  X(KernelGetLibrary, 12050, (CUlibrary * library, CUkernel kernel))

#define CALLOUT_SOFTWARE_GPU_DECLARE(name, version, parameters) CUresult name parameters;
CALLOUT_CUDA_FUNCTIONS(CALLOUT_SOFTWARE_GPU_DECLARE)
CALLOUT_SOFTWARE_GPU_FOREIGN_FUNCTIONS(CALLOUT_SOFTWARE_GPU_DECLARE)
#undef CALLOUT_SOFTWARE_GPU_DECLARE

}  // namespace callout::software_gpu
