// SPDX-License-Identifier: Apache-2.0
//
// Kernels of images, on CUDA. What is queued depends on attributes and shapes alone, so XLA may record it into a
// command buffer and replay it without us.

#include "cuda/handlers/image_handler.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/attributes/decode.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/embedded_library.h"
#include "core/ffi/handlers.h"
#include "core/ffi/lanes.h"
#include "core/frame/call_frame.h"
#include "core/frame/ffi_abi.h"
#include "core/frame/handler.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/device_results.h"
#include "cuda/kernels/image_kernel.h"

namespace callout::internal {
namespace {

// All entries but the names of globals are codes and their texts.
Result<Faults> FaultsOf(const FaultAttributes& said) {
  Faults faults;
  faults.symbol = said.symbol;
  faults.place = {std::string(said.thread_x), std::string(said.thread_y), std::string(said.thread_z),
                  std::string(said.block_x),  std::string(said.block_y),  std::string(said.block_z)};
  const XLA_FFI_Attrs& all = *said.all_entries;
  for (int64_t i = 0; i < all.size; ++i) {
    const std::string_view key(all.names[i]->ptr, all.names[i]->len);
    int32_t code = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), code);
    if (error != std::errc() || end != key.data() + key.size()) continue;
    if (all.types[i] != XLA_FFI_AttrType_STRING) {
      return InvalidArgument("callout: attribute 'faults' must have a string for the code " + std::string(key));
    }
    const auto* text = static_cast<const XLA_FFI_ByteSpan*>(all.attrs[i]);
    faults.text[code] = std::string(text->ptr, text->len);
  }
  return faults;
}

// The numbers of an image are within 31 bits.
cuda::LaunchShape ShapeOf(const ImageAttributes& said) {
  cuda::LaunchShape shape;
  std::copy(said.grid.begin(), said.grid.end(), std::begin(shape.grid));
  std::copy(said.block.begin(), said.block.end(), std::begin(shape.block));
  shape.shared_bytes = static_cast<unsigned int>(said.shared_bytes);
  shape.cooperative = said.cooperative;
  std::copy(said.cluster.begin(), said.cluster.end(), std::begin(shape.cluster));
  shape.dependent = said.dependent;
  if (!said.priority.empty()) shape.priority = static_cast<int>(said.priority[0]);
  return shape;
}

// Extents and strides have up to 40 bits, the others 31.
Status CheckTensorMap(std::span<const int64_t> numbers, const std::string& kernel) {
  constexpr size_t kDims = 4, kBox = 14;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if ((i >= kDims && i < kBox) || numbers[i] <= kMostOfImages) continue;
    return InvalidArgument("callout: kernel '" + kernel + "': number " + std::to_string(i) +
                           " of a tensor map must be " + "at most " + std::to_string(kMostOfImages) + ", got " +
                           std::to_string(numbers[i]));
  }
  return OkStatus();
}

// In the order that the attribute's table says.
TensorMapSlot TensorMapOf(std::span<const int64_t> numbers) {
  auto next = numbers.begin();
  TensorMapSlot slot = {.position = static_cast<size_t>(*next++), .operand = static_cast<size_t>(*next++), .shape = {}};
  cuda::TensorMapShape& shape = slot.shape;
  const auto fill = [&next](auto& array) {
    for (auto& number : array) number = static_cast<std::remove_reference_t<decltype(number)>>(*next++);
  };
  shape.type = static_cast<int>(*next++);
  shape.rank = static_cast<uint32_t>(*next++);
  fill(shape.dims);
  fill(shape.strides);
  fill(shape.box);
  fill(shape.element_strides);
  for (int* setting : {&shape.interleave, &shape.swizzle, &shape.promotion, &shape.fill}) {
    *setting = static_cast<int>(*next++);
  }
  return slot;
}

}  // namespace

Result<ImageCall> ImageCallOf(const ImageAttributes& said) {
  ImageCall call;
  call.name = said.callback;
  call.bytes = said.image->bytes;
  call.symbol = said.image->symbol;
  call.shape = ShapeOf(said);
  call.parameter_bytes.assign(said.parameter_bytes.begin(), said.parameter_bytes.end());
  call.parameter_block = said.parameter_block;
  for (size_t i = 0; i < said.pointers.size(); i += 2) {
    call.addresses.push_back({static_cast<size_t>(said.pointers[i]), static_cast<size_t>(said.pointers[i + 1])});
  }
  call.fills_device = said.fills_device;
  for (size_t i = 0; i < said.tensor_maps.size(); i += kTensorMapNumbers) {
    const std::span<const int64_t> numbers = said.tensor_maps.subspan(i, kTensorMapNumbers);
    CALLOUT_RETURN_IF_ERROR(CheckTensorMap(numbers, call.name));
    call.tensor_maps.push_back(TensorMapOf(numbers));
  }
  if (said.faults) {
    CALLOUT_ASSIGN_OR_RETURN(call.faults, FaultsOf(*said.faults));
  }
  CALLOUT_RETURN_IF_ERROR(call.Check());
  return call;
}

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
