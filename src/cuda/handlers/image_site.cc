// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/image_site.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>

#include "core/frame/ffi_abi.h"

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

}  // namespace callout::internal
