// SPDX-License-Identifier: Apache-2.0
//
// Calls on CUDA: the callback gets pinned host memory. A call
// 1. queues copies to the host on XLA's stream,
// 2. waits for them,
// 3. runs the callback in this thread,
// 4. queues copies to the device, and does not wait for these.
// The stream is idle while the callback runs, so a callback that uses the device does not wait for itself, and its
// error is the error of the call.
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "core/attributes/decode.h"
#include "core/attributes/site_attributes.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/in_flight.h"
#include "core/ffi/call_site.h"
#include "core/ffi/handlers.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/host_copies.h"

namespace callout::internal {
namespace {

using cuda::CUstream;

struct CudaCallState final : SiteState {
  CallSite site;
  std::string subject;  // For errors of the driver.
  cuda::PinnedPools pools;
};

Status InstantiateCudaCall(XLA_FFI_CallFrame* frame) {
  auto state = std::make_unique<CudaCallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(frame->attrs));
  state->subject = "callback '" + state->site.label() + "'";
  return KeepState(frame, std::move(state));
}

// Pins memory before executions, because pinning may wait for other devices, which may wait for this one.
Status InitializeCudaCall(XLA_FFI_CallFrame* frame, CudaCallState& state) {
  NoteGpu(DeviceOrdinal(frame));
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.Decode(frame, state.site.threaded()));
  // Ignores errors: the program may never reach the call, which otherwise returns them.
  static_cast<void>(state.pools.Prepare(DeviceOrdinal(frame), HostCopies::Bytes(operands.args(), operands.results())));
  return OkStatus();
}

Status ExecuteCudaCall(XLA_FFI_CallFrame* frame, CudaCallState& state) {
  const GpuScope gpu;
  CALLOUT_ASSIGN_OR_RETURN(cuda::PinnedPool* const pool, state.pools.On(DeviceOrdinal(frame)));
  CALLOUT_ASSIGN_OR_RETURN(void* const found, PlatformStream(frame));
  const auto stream = static_cast<CUstream>(found);
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.Decode(frame, state.site.threaded()));
  if (state.site.threaded()) {
    CALLOUT_RETURN_IF_ERROR(CopyOnDevice(pool->device(), stream, cuda::AddressOf(operands.token().to),
                                         cuda::AddressOf(operands.token().from), sizeof(uint32_t), state.subject));
  }
  HostCopies copies(*pool, stream, state.subject, operands.args(), operands.results());
  CALLOUT_RETURN_IF_ERROR(copies.In());
  CALLOUT_RETURN_IF_ERROR(state.site.Run(frame, copies.args(), copies.results()));
  return copies.Out();
}

struct CudaCheckState final : SiteState {
  explicit CudaCheckState(const CheckAttributes& attributes) : callback(attributes.callback) {}

  const std::string callback;
  cuda::PinnedPools pools;
};

Status InstantiateCudaCheck(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes attributes, DecodeAttributes<CheckAttributes>(frame->attrs));
  auto state = std::make_unique<CudaCheckState>(attributes);
  return KeepState(frame, std::move(state));
}

// Pins memory before executions. Ignores errors: the check returns them if the program reaches it.
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

using namespace callout::internal;  // The handlers are C symbols.

XLA_FFI_Error* callout_v1_cuda_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateCudaCall);
}

XLA_FFI_Error* callout_v1_cuda_call_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaCallState>(frame, InitializeCudaCall);
}

XLA_FFI_Error* callout_v1_cuda_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaCallState>(frame, ExecuteCudaCall);
}

XLA_FFI_Error* callout_v1_cuda_check_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateCudaCheck);
}

XLA_FFI_Error* callout_v1_cuda_check_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaCheckState>(frame, InitializeCudaCheck);
}

XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaCheckState>(frame, ExecuteCudaCheck);
}
