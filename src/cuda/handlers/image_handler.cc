// SPDX-License-Identifier: Apache-2.0
//
// Kernels of images, on CUDA. What is queued depends on attributes and shapes alone, so XLA may record it into a
// command buffer and replay it without us.
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/attributes/decode.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/embedded_code.h"
#include "core/ffi/handlers.h"
#include "core/ffi/lanes.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/device_results.h"
#include "cuda/handlers/image_site.h"
#include "cuda/kernels/image_kernel.h"

namespace callout::internal {
namespace {

using cuda::CUdeviceptr;
using cuda::CUstream;

class ImageState final : public SiteState {
 public:
  ImageState(ImageCall call, Lanes lanes, Aliases aliases, Status allowed)
      : kernel_(std::move(call)),
        lanes_(std::move(lanes)),
        aliases_(std::move(aliases)),
        allowed_(std::move(allowed)) {}
  /// Returns the kernel, loaded on the device. FailedPrecondition where the process does not run the program's code.
  Result<const LoadedKernel*> On(int32_t device_ordinal) {
    if (!allowed_.ok()) [[unlikely]]
      return allowed_;
    return kernel_.On(device_ordinal);
  }
  const ImageCall& call() const { return kernel_.call(); }
  const Lanes& lanes() const { return lanes_; }
  const Aliases& aliases() const { return aliases_; }

 private:
  ImageKernel kernel_;
  const Lanes lanes_;
  const Aliases aliases_;
  const Status allowed_;
};

Status InstantiateImage(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const ImageAttributes said, DecodeAttributes<ImageAttributes>(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(ImageCall call, ImageCallOf(said));
  CALLOUT_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Of(said));
  Status allowed = CheckEmbeddedCode("the kernel '" + call.name + "'");
  if (!allowed.ok() && IsExpectedImage(call.bytes)) allowed = OkStatus();
  if (!allowed.ok() && !BindingScope::RefusedCodeFailsLate()) return allowed;
  auto state =
      std::make_unique<ImageState>(std::move(call), std::move(lanes), Aliases(said.aliases), std::move(allowed));
  return KeepState(frame, std::move(state));
}

// One launch, after the copies that `aliases` asks for.
Status LaunchOn(const LoadedKernel& kernel, CUstream stream, const Aliases& aliases, const callout_call& call) {
  CALLOUT_RETURN_IF_ERROR(CopyAliases(aliases, call, kernel.device(), stream));
  SmallBuffer<CUdeviceptr, 32> addresses(call.num_args + call.num_results);
  for (uint32_t i = 0; i < call.num_args; ++i) addresses[i] = cuda::AddressOf(call.args[i].data);
  for (uint32_t i = 0; i < call.num_results; ++i) addresses[call.num_args + i] = cuda::AddressOf(call.results[i].data);
  return kernel.Launch(stream, std::span(addresses.data(), addresses.size()));
}

Status LaunchLanes(XLA_FFI_CallFrame* frame, ImageState& state, const LoadedKernel& kernel, CUstream stream) {
  SmallBuffer<callout_buffer, 16> args(static_cast<size_t>(frame->args.size));
  SmallBuffer<callout_buffer, 8> results(static_cast<size_t>(frame->rets.size));
  callout_call whole = {};
  whole.struct_size = sizeof(whole);
  CALLOUT_RETURN_IF_ERROR(DecodeFrame(*frame, args.data(), results.data(), whole));
  const Lanes& lanes = state.lanes();
  if (lanes.empty()) [[likely]]
    return LaunchOn(kernel, stream, state.aliases(), whole);
  CALLOUT_ASSIGN_OR_RETURN(const LaneParts parts, LaneParts::Of(lanes, whole));
  std::vector<callout_buffer> buffers(parts.size());
  for (int64_t lane = 0; lane < lanes.count(); ++lane) {
    CALLOUT_RETURN_IF_ERROR(LaunchOn(kernel, stream, state.aliases(), parts.Call(lane, buffers.data())));
  }
  return OkStatus();
}

enum class Completion { kQueued, kAwaited };

Status ExecuteImage(XLA_FFI_CallFrame* frame, ImageState& state, Completion completion) {
  CALLOUT_ASSIGN_OR_RETURN(const LoadedKernel* kernel, state.On(DeviceOrdinal(frame)));
  CALLOUT_ASSIGN_OR_RETURN(void* const found, PlatformStream(frame));
  const auto stream = static_cast<CUstream>(found);
  cuda::ContextScope current(kernel->device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  const bool faults = completion == Completion::kAwaited && state.call().faults.has_value();
  if (faults) CALLOUT_RETURN_IF_ERROR(kernel->ClearFaults(stream));
  CALLOUT_RETURN_IF_ERROR(LaunchLanes(frame, state, *kernel, stream));
  return completion == Completion::kAwaited ? kernel->Wait(stream) : OkStatus();
}

XLA_FFI_Error* ExecuteGuarded(XLA_FFI_CallFrame* frame, Completion completion) noexcept {
  return WithState<ImageState>(
      frame, [=](XLA_FFI_CallFrame*, ImageState& state) { return ExecuteImage(frame, state, completion); },
      /*capturable=*/completion == Completion::kQueued);
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_image_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateImage);
}

XLA_FFI_Error* callout_v1_image_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<ImageState>(
      frame, [](XLA_FFI_CallFrame* of, ImageState& state) { return state.On(DeviceOrdinal(of)).status(); });
}

XLA_FFI_Error* callout_v1_image_execute(XLA_FFI_CallFrame* frame) noexcept {
  return ExecuteGuarded(frame, Completion::kQueued);
}

XLA_FFI_Error* callout_v1_image_sync_execute(XLA_FFI_CallFrame* frame) noexcept {
  return ExecuteGuarded(frame, Completion::kAwaited);
}
