// SPDX-License-Identifier: Apache-2.0
//
// The one place where a CUresult becomes a Status.
#include <string>

#include "cuda/driver/driver.h"

namespace callout::internal::cuda {
namespace {

StatusCode LaterCode(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return StatusCode::kUnavailable;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return StatusCode::kResourceExhausted;
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_TIMEOUT:
      return StatusCode::kDeadlineExceeded;
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      return StatusCode::kInvalidArgument;
    case CUDA_ERROR_NOT_PERMITTED:
      return StatusCode::kPermissionDenied;
    case CUDA_ERROR_NOT_SUPPORTED:
      return StatusCode::kUnimplemented;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
      return StatusCode::kFailedPrecondition;
    default:
      // What is left of 900 to 908 says that the call is not one for a stream that is being captured.
      return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                 ? StatusCode::kFailedPrecondition
                 : StatusCode::kInternal;
  }
}

StatusCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_HANDLE:
      return StatusCode::kInvalidArgument;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return StatusCode::kResourceExhausted;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_ILLEGAL_STATE:
      return StatusCode::kFailedPrecondition;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
      return StatusCode::kUnavailable;
    case CUDA_ERROR_NOT_FOUND:
      return StatusCode::kNotFound;
    default:
      return LaterCode(result);
  }
}

}  // namespace

Status Driver::Check(CUresult result, const Attempt& attempt) const {
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  std::string text = attempt.function;
  if (!attempt.subject.empty()) text.append(" of ").append(attempt.subject);
  if (attempt.device >= 0) text += " on device " + std::to_string(attempt.device);
  // A driver does not name errors that are newer than it.
  const char* name = nullptr;
  const char* description = nullptr;
  if (GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  if (GetErrorString(result, &description) != CUDA_SUCCESS) description = nullptr;
  text.append(" failed: ").append(name).append(" (").append(std::to_string(result)).append(")");
  if (description != nullptr) text.append(": ").append(description);
  return {CodeOf(result), std::move(text)};
}

}  // namespace callout::internal::cuda
