// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <string>

#include "attributes/call_attributes.h"
#include "attributes/decode.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/host_copies.h"
#include "ffi/check_frame.h"
#include "ffi/handlers.h"
#include "frame/guard.h"

namespace callout::internal {
namespace {

struct CudaCheckState final : SiteState {
  explicit CudaCheckState(const CheckAttributes& said) : callback(said.callback) {}

  const std::string callback;
  cuda::PinnedPools pools;
};

Status InstantiateOnCuda(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes said, DecodeAttributes<CheckAttributes>(frame->attrs));
  auto state = std::make_unique<CudaCheckState>(said);
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

// So that no execution pins memory. The check says what fails, if the program gets there.
Status InitializeOnCuda(XLA_FFI_CallFrame* frame, CudaCheckState& state) {
  static_cast<void>(state.pools.Prepare(DeviceOrdinal(frame), sizeof(int32_t)));
  return OkStatus();
}

Status ExecuteOnCuda(XLA_FFI_CallFrame* frame, CudaCheckState& state) {
  CheckFrame check(frame);
  CALLOUT_RETURN_IF_ERROR(check.Decode(frame));
  CALLOUT_ASSIGN_OR_RETURN(cuda::PinnedPool* const pool, state.pools.On(DeviceOrdinal(frame)));
  CALLOUT_ASSIGN_OR_RETURN(void* const found, PlatformStream(frame));
  const auto stream = static_cast<cuda::CUstream>(found);
  const std::string subject = "callback '" + state.callback + "'";
  HostCopies copies(*pool, stream, subject, check.args.first(1), {});
  CALLOUT_RETURN_IF_ERROR(copies.In());
  int32_t number;
  std::memcpy(&number, copies.args()[0].data, sizeof(number));
  if (number != 0) return FailureOf(number, state.callback);
  return check.PassOn([&](void* to, const void* from, size_t bytes) {
    return CopyOnDevice(pool->device(), stream, cuda::AddressOf(to), cuda::AddressOf(from), bytes, subject);
  });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_cuda_check_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return InstantiateOnCuda(frame); });
}

XLA_FFI_Error* callout_v1_cuda_check_initialize(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  auto* state = static_cast<CudaCheckState*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [&] { return InitializeOnCuda(frame, *state); });
}

XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  auto* state = static_cast<CudaCheckState*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [&] { return ExecuteOnCuda(frame, *state); });
}
