// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <string>

#include "core/attributes/call_attributes.h"
#include "core/attributes/decode.h"
#include "core/ffi/check_handler.h"
#include "core/ffi/handlers.h"
#include "core/frame/handler.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/host_copies.h"

namespace callout::internal {
namespace {

struct CudaCheckState final : SiteState {
  explicit CudaCheckState(const CheckAttributes& said) : callback(said.callback) {}

  const std::string callback;
  cuda::PinnedPools pools;
};

Status InstantiateCudaCheck(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes said, DecodeAttributes<CheckAttributes>(frame->attrs));
  auto state = std::make_unique<CudaCheckState>(said);
  return KeepState(frame, std::move(state));
}

// So that no execution pins memory. The check says what fails, if the program gets there.
Status InitializeCudaCheck(XLA_FFI_CallFrame* frame, CudaCheckState& state) {
  static_cast<void>(state.pools.Prepare(DeviceOrdinal(frame), sizeof(int32_t)));
  return OkStatus();
}

Status ExecuteCudaCheck(XLA_FFI_CallFrame* frame, CudaCheckState& state) {
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
  return Instantiate(frame, InstantiateCudaCheck);
}

XLA_FFI_Error* callout_v1_cuda_check_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaCheckState>(frame, InitializeCudaCheck);
}

XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaCheckState>(frame, ExecuteCudaCheck);
}
