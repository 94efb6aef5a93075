// SPDX-License-Identifier: Apache-2.0
#include "core/frame/attributes.h"

#include <algorithm>
#include <cstring>

#include "callout/dtype.h"

namespace callout::internal {
namespace {

// A std::string's characters are only aligned for char. Values of up to 16 bytes (complex128) get memory that is
// aligned for them because it comes from operator new: short strings would lie inside the object.
constexpr size_t kLeastBytes = 64;

}  // namespace

const char* Attributes::Keep(const void* data, size_t size) {
  std::string& kept = kept_.emplace_back();
  kept.reserve(std::max(size + 1, kLeastBytes));
  kept.assign(static_cast<const char*>(data), size);
  return kept.data();
}

Status Attributes::Decode(const XLA_FFI_Attrs* dictionary) {
  if (dictionary == nullptr) return OkStatus();
  for (int64_t i = 0; i < dictionary->size; ++i) {
    const XLA_FFI_ByteSpan& key = *dictionary->names[i];
    callout_attribute attribute = {};
    attribute.name = Keep(key.ptr, key.len);
    switch (dictionary->types[i]) {
      case XLA_FFI_AttrType_SCALAR: {
        const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(dictionary->attrs[i]);
        attribute.kind = CALLOUT_ATTRIBUTE_SCALAR;
        attribute.dtype = static_cast<uint32_t>(scalar.dtype);
        attribute.count = 1;
        attribute.data = Keep(scalar.value, PackedBytes(static_cast<DType>(scalar.dtype), 1));
        break;
      }
      case XLA_FFI_AttrType_ARRAY: {
        const auto& array = *static_cast<const XLA_FFI_Array*>(dictionary->attrs[i]);
        attribute.kind = CALLOUT_ATTRIBUTE_ARRAY;
        attribute.dtype = static_cast<uint32_t>(array.dtype);
        attribute.count = array.size;
        attribute.data =
            Keep(array.data, PackedBytes(static_cast<DType>(array.dtype), static_cast<int64_t>(array.size)));
        break;
      }
      case XLA_FFI_AttrType_STRING: {
        const auto& text = *static_cast<const XLA_FFI_ByteSpan*>(dictionary->attrs[i]);
        attribute.kind = CALLOUT_ATTRIBUTE_STRING;
        attribute.count = text.len;
        attribute.data = Keep(text.ptr, text.len);
        break;
      }
      default:
        return InvalidArgument("callout: attribute '" + std::string(key.ptr, key.len) +
                               "' must be a number, an array or a string");
    }
    view_.push_back(attribute);
  }
  std::sort(view_.begin(), view_.end(), [](const auto& a, const auto& b) { return std::strcmp(a.name, b.name) < 0; });
  return OkStatus();
}

}  // namespace callout::internal
