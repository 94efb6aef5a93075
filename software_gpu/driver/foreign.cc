// SPDX-License-Identifier: Apache-2.0
//
// Functions that Callout does not call, and that Numba's compilers do before they compile for a device.
#include <cstring>

#include "driver/state.h"

namespace callout::software_gpu {

extern "C" CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  const Call call("cuDeviceGetUuid", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid->bytes, device + 1, 16);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  const Call call("cuDevicePrimaryCtxGetState", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().HasDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = call.state().contexts[static_cast<size_t>(device)]->retained > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxSetCurrent(CUcontext context) {
  const Call call("cuCtxSetCurrent", kInitialized);
  if (call.refused()) return call.result();
  if (context != nullptr && context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<CUcontext>& stack = ContextStack();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuCtxGetDevice(CUdevice* device) {
  const Call call("cuCtxGetDevice", kContext);
  if (!call.refused()) *device = call.context()->device;
  return call.result();
}

extern "C" CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  const Call call("cuKernelGetLibrary", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *library = kernel->library;
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
