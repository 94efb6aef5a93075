// SPDX-License-Identifier: Apache-2.0
//
// Kernels of images, on CUDA. The queued work depends on attributes and shapes alone, so XLA may capture it into a
// command buffer and replay it without this handler.

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
#include "core/base/cat.h"
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

// The entries are names of globals, and codes with their texts.
Result<Faults> FaultsOf(const FaultAttributes& attributes) {
  Faults faults;
  faults.symbol = attributes.symbol;
  faults.place = {std::string(attributes.thread_x), std::string(attributes.thread_y), std::string(attributes.thread_z),
                  std::string(attributes.block_x),  std::string(attributes.block_y),  std::string(attributes.block_z)};
  const XLA_FFI_Attrs& all = *attributes.all_entries;
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

// Decoding has limited the numbers to 31 bits.
cuda::LaunchShape ShapeOf(const ImageAttributes& attributes) {
  cuda::LaunchShape shape;
  std::copy(attributes.grid.begin(), attributes.grid.end(), std::begin(shape.grid));
  std::copy(attributes.block.begin(), attributes.block.end(), std::begin(shape.block));
  shape.shared_bytes = static_cast<unsigned int>(attributes.shared_bytes);
  shape.cooperative = attributes.cooperative;
  std::copy(attributes.cluster.begin(), attributes.cluster.end(), std::begin(shape.cluster));
  shape.dependent = attributes.dependent;
  if (!attributes.priority.empty()) shape.priority = static_cast<int>(attributes.priority[0]);
  return shape;
}

// Extents and strides may have up to 40 bits, other numbers 31.
Status CheckTensorMap(std::span<const int64_t> numbers, const std::string& kernel) {
  constexpr size_t kDims = 4, kBox = 14;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if ((i >= kDims && i < kBox) || numbers[i] <= kMostOfImages) continue;
    return InvalidArgument(Cat("callout: kernel '", kernel, "': number ", i, " of a tensor map must be ", "at most ",
                               kMostOfImages, ", got ", numbers[i]));
  }
  return OkStatus();
}

// Reads the numbers in the order that the attribute's table gives.
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

Result<ImageCall> ImageCallOf(const ImageAttributes& attributes) {
  ImageCall call;
  call.name = attributes.callback;
  call.bytes = attributes.image->bytes;
  call.symbol = attributes.image->symbol;
  call.shape = ShapeOf(attributes);
  call.parameter_bytes.assign(attributes.parameter_bytes.begin(), attributes.parameter_bytes.end());
  call.parameter_block = attributes.parameter_block;
  for (size_t i = 0; i < attributes.pointers.size(); i += 2) {
    call.addresses.push_back(
        {static_cast<size_t>(attributes.pointers[i]), static_cast<size_t>(attributes.pointers[i + 1])});
  }
  call.fills_device = attributes.fills_device;
  for (size_t i = 0; i < attributes.tensor_maps.size(); i += kTensorMapNumbers) {
    const std::span<const int64_t> numbers = attributes.tensor_maps.subspan(i, kTensorMapNumbers);
    CALLOUT_RETURN_IF_ERROR(CheckTensorMap(numbers, call.name));
    call.tensor_maps.push_back(TensorMapOf(numbers));
  }
  if (attributes.faults) {
    CALLOUT_ASSIGN_OR_RETURN(call.faults, FaultsOf(*attributes.faults));
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
  /// Returns the kernel, loaded on the device. FailedPrecondition if the process may not run the program's code.
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
  CALLOUT_ASSIGN_OR_RETURN(const ImageAttributes attributes, DecodeAttributes<ImageAttributes>(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(ImageCall call, ImageCallOf(attributes));
  CALLOUT_ASSIGN_OR_RETURN(Lanes lanes, Lanes::Of(attributes));
  Status allowed = CheckEmbeddedCode("the kernel '" + call.name + "'");
  if (!allowed.ok() && IsExpectedImage(call.bytes)) allowed = OkStatus();
  if (!allowed.ok() && !BindingScope::RefusedCodeFailsLate()) return allowed;
  auto state =
      std::make_unique<ImageState>(std::move(call), std::move(lanes), Aliases(attributes.aliases), std::move(allowed));
  return KeepState(frame, std::move(state));
}

// Launches once, after the copies for `aliases`.
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

using namespace callout::internal;  // The handlers are C symbols.

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
