// SPDX-License-Identifier: Apache-2.0
//
// Calls on CUDA: the callback gets pinned memory of the host. Copies in, one wait, the callback, copies out, all on
// XLA's stream, and in this thread: when the callback runs, the stream is idle, so that a callback that uses the device
// does not wait for itself, and its error is the error of the call. What is after the copies out is not awaited.
#include <memory>
#include <span>
#include <string>

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
