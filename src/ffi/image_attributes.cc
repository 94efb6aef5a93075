// SPDX-License-Identifier: Apache-2.0
#include "ffi/image_attributes.h"

#include <charconv>
#include <limits>
#include <span>
#include <string>

namespace callout::internal {
namespace {

constexpr std::string_view kPlaces[] = {"thread_x", "thread_y", "thread_z", "block_x", "block_y", "block_z"};

Status Wrong(std::string_view attribute, const std::string& what) {
  return InvalidArgument("callout.v1.image: attribute '" + std::string(attribute) + "' " + what);
}

Result<unsigned int> Unsigned(std::string_view attribute, int64_t value) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    return Wrong(attribute, "has the number " + std::to_string(value));
  }
  return static_cast<unsigned int>(value);
}

Status DecodeExtents(const XLA_FFI_Attrs& attrs, std::string_view name, unsigned int (*out)[3]) {
  CALLOUT_ASSIGN_OR_RETURN(const std::span<const int64_t> extents, Int64ArrayAttribute(attrs, name));
  if (extents.size() != 3) return Wrong(name, "must have 3 numbers, has " + std::to_string(extents.size()));
  for (size_t i = 0; i < 3; ++i) {
    CALLOUT_ASSIGN_OR_RETURN((*out)[i], Unsigned(name, extents[i]));
  }
  return OkStatus();
}

Status DecodeParameters(const XLA_FFI_Attrs& attrs, ImageCall* call) {
  CALLOUT_ASSIGN_OR_RETURN(const std::span<const int64_t> sizes, Int64ArrayAttribute(attrs, "parameter_bytes"));
  for (const int64_t size : sizes) {
    CALLOUT_ASSIGN_OR_RETURN(const unsigned int bytes, Unsigned("parameter_bytes", size));
    call->parameter_bytes.push_back(bytes);
  }
  CALLOUT_ASSIGN_OR_RETURN(call->parameter_block, StringAttribute(attrs, "parameter_block"));
  CALLOUT_ASSIGN_OR_RETURN(const std::span<const int64_t> pointers, Int64ArrayAttribute(attrs, "pointers"));
  if (pointers.size() % 2 != 0) return Wrong("pointers", "must be pairs");
  for (size_t i = 0; i < pointers.size(); i += 2) {
    CALLOUT_ASSIGN_OR_RETURN(const unsigned int position, Unsigned("pointers", pointers[i]));
    CALLOUT_ASSIGN_OR_RETURN(const unsigned int operand, Unsigned("pointers", pointers[i + 1]));
    call->addresses.push_back({position, operand});
  }
  return OkStatus();
}

// All members but the names of globals are codes and their texts.
Result<Faults> DecodeFaults(const XLA_FFI_Attrs& attrs) {
  Faults faults;
  CALLOUT_ASSIGN_OR_RETURN(faults.symbol, StringAttribute(attrs, "symbol"));
  for (size_t i = 0; i < faults.place.size(); ++i) {
    CALLOUT_ASSIGN_OR_RETURN(faults.place[i], StringAttribute(attrs, kPlaces[i]));
  }
  for (int64_t i = 0; i < attrs.size; ++i) {
    const std::string_view key(attrs.names[i]->ptr, attrs.names[i]->len);
    int32_t code = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), code);
    if (error != std::errc() || end != key.data() + key.size()) continue;
    CALLOUT_ASSIGN_OR_RETURN(faults.text[code], StringAttribute(attrs, key));
  }
  if (faults.symbol.empty()) return Wrong("faults", "does not name the global with the code");
  return faults;
}

}  // namespace

Result<ImageCall> DecodeImageCall(const XLA_FFI_Attrs& attrs) {
  ImageCall call;
  CALLOUT_ASSIGN_OR_RETURN(call.name, StringAttribute(attrs, "callback"));
  CALLOUT_ASSIGN_OR_RETURN(const XLA_FFI_Attrs* image, DictionaryAttribute(attrs, "image"));
  if (image == nullptr) return Wrong("image", "is missing");
  CALLOUT_ASSIGN_OR_RETURN(call.bytes, StringAttribute(*image, "bytes"));
  CALLOUT_ASSIGN_OR_RETURN(call.symbol, StringAttribute(*image, "symbol"));
  CALLOUT_RETURN_IF_ERROR(DecodeExtents(attrs, "grid", &call.shape.grid));
  CALLOUT_RETURN_IF_ERROR(DecodeExtents(attrs, "block", &call.shape.block));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t shared, Int64Attribute(attrs, "shared_bytes", 0));
  CALLOUT_ASSIGN_OR_RETURN(call.shape.shared_bytes, Unsigned("shared_bytes", shared));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t cooperative, Int64Attribute(attrs, "cooperative", 0));
  call.shape.cooperative = cooperative != 0;
  CALLOUT_RETURN_IF_ERROR(DecodeParameters(attrs, &call));
  CALLOUT_ASSIGN_OR_RETURN(const XLA_FFI_Attrs* faults, DictionaryAttribute(attrs, "faults"));
  if (faults != nullptr) {
    CALLOUT_ASSIGN_OR_RETURN(call.faults, DecodeFaults(*faults));
  }
  CALLOUT_RETURN_IF_ERROR(call.Check());
  return call;
}

}  // namespace callout::internal
