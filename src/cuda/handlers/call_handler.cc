// SPDX-License-Identifier: Apache-2.0
//
// Calls on CUDA: the callback gets pinned memory of the host. Copies in, one wait, the callback, copies out, all on
// XLA's stream, and in this thread: when the callback runs, the stream is idle, so that a callback that uses the device
// does not wait for itself, and its error is the error of the call. What is after the copies out is not awaited.
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
  std::string subject;  // for errors of the driver
  cuda::PinnedPools pools;
};

Status InstantiateCudaCall(XLA_FFI_CallFrame* frame) {
  auto state = std::make_unique<CudaCallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(frame->attrs));
  state->subject = "callback '" + state->site.callback().label() + "'";
  return KeepState(frame, std::move(state));
}

// So that no execution pins memory: that may wait for other devices, which may wait for this one.
Status InitializeCudaCall(XLA_FFI_CallFrame* frame, CudaCallState& state) {
  NoteGpu(DeviceOrdinal(frame));
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.Decode(frame, state.site.threaded()));
  // What fails here is told by the call, if it comes: the program may not get there.
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
