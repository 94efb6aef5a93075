// SPDX-License-Identifier: Apache-2.0
//
// Reads objects of the host into a device's memory. The handle lies in the device's memory, so the handler waits for a
// copy of it, and an error of the handle becomes the error of the read. The result is copied to the device without
// waiting.
#include "core/ffi/read_state.h"

#include <memory>
#include <span>

#include "core/attributes/decode.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/in_flight.h"
#include "core/ffi/handlers.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/host_copies.h"

namespace callout::internal {
namespace {

constexpr char kSubject[] = "callout.v1.read";  // For errors of the driver.

struct CudaReadState final : ReadState {
  using ReadState::ReadState;
  cuda::PinnedPools pools;
};

Status InstantiateCudaRead(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const ReadAttributes attributes, DecodeAttributes<ReadAttributes>(frame->attrs));
  return KeepState(frame, std::make_unique<CudaReadState>(attributes));
}

struct Buffers {
  explicit Buffers(XLA_FFI_CallFrame* frame)
      : arg_buffers(static_cast<size_t>(frame->args.size)), result_buffers(static_cast<size_t>(frame->rets.size)) {}

  Status Decode(XLA_FFI_CallFrame* frame) {
    CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
    return DecodeRets(frame->rets, result_buffers.data(), results);
  }

  SmallBuffer<callout_buffer, 1> arg_buffers;
  SmallBuffer<callout_buffer, 8> result_buffers;
  std::span<const callout_buffer> args, results;
};

// Pins memory before executions, because pinning may wait for other devices, which may wait for this one.
Status InitializeCudaRead(XLA_FFI_CallFrame* frame, CudaReadState& state) {
  NoteGpu(DeviceOrdinal(frame));
  Buffers buffers(frame);
  CALLOUT_RETURN_IF_ERROR(buffers.Decode(frame));
  // Ignores errors: the program may never reach the read, which otherwise returns them.
  static_cast<void>(state.pools.Prepare(DeviceOrdinal(frame), HostCopies::Bytes(buffers.args, buffers.results)));
  return OkStatus();
}

Status ExecuteCudaRead(XLA_FFI_CallFrame* frame, CudaReadState& state) {
  const GpuScope gpu;
  CALLOUT_ASSIGN_OR_RETURN(cuda::PinnedPool* const pool, state.pools.On(DeviceOrdinal(frame)));
  CALLOUT_ASSIGN_OR_RETURN(void* const stream, PlatformStream(frame));
  Buffers buffers(frame);
  CALLOUT_RETURN_IF_ERROR(buffers.Decode(frame));
  HostCopies copies(*pool, static_cast<cuda::CUstream>(stream), kSubject, buffers.args, buffers.results);
  CALLOUT_RETURN_IF_ERROR(copies.In());
  CALLOUT_RETURN_IF_ERROR(state.Read(frame, copies.args(), copies.results()));
  return copies.Out();
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // The handlers are C symbols.

XLA_FFI_Error* callout_v1_cuda_read_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateCudaRead);
}

XLA_FFI_Error* callout_v1_cuda_read_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaReadState>(frame, InitializeCudaRead);
}

XLA_FFI_Error* callout_v1_cuda_read_execute(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<CudaReadState>(frame, ExecuteCudaRead);
}
