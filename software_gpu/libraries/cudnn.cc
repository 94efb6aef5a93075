// SPDX-License-Identifier: Apache-2.0
//
// libcudnn: it can be opened and returns its version, but computes nothing (refused.cc).
#include <cstddef>

#include "libraries/log.h"

namespace {
constexpr int kVersion[] = {9, 19, 0};
constexpr int kBadParameter = 2000;
int context;
}  // namespace

CALLOUT_LIBRARY_EXPORT size_t cudnnGetVersion() { return 91900; }
CALLOUT_LIBRARY_EXPORT size_t cudnnGetCudartVersion() { return CALLOUT_CUDA_MAJOR * 1000; }
CALLOUT_LIBRARY_EXPORT int cudnnGetProperty(int which, int* value) {
  if (which < 0 || which > 2) return kBadParameter;
  *value = kVersion[which];
  return 0;
}
CALLOUT_LIBRARY_EXPORT int cudnnCreate(void** handle) {
  *handle = &context;
  return 0;
}
CALLOUT_LIBRARY_EXPORT int cudnnDestroy(void*) { return 0; }
CALLOUT_LIBRARY_EXPORT int cudnnSetStream(void*, void*) { return 0; }
CALLOUT_LIBRARY_EXPORT const char* cudnnGetErrorString(int status) {
  return status == 0 ? "CUDNN_STATUS_SUCCESS" : "refused: the software GPU has no cuDNN";
}
CALLOUT_LIBRARY_EXPORT void cudnnGetLastErrorString(char* text, size_t bytes) {
  if (bytes != 0) std::snprintf(text, bytes, "%s", "the software GPU has no cuDNN");
}
