// SPDX-License-Identifier: Apache-2.0
#include "core/frame/call_frame.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

// The characters of a std::string are only aligned for char. Values of up to 16 bytes (complex128) need more, so each
// string gets at least this size and thereby heap memory from operator new, which is aligned; short strings would lie
// inside the object.
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

namespace {

Status UnknownElements(const char* which, int64_t i, const XLA_FFI_Buffer& buffer) {
  return InvalidArgument(Cat("callout: ", which, " ", i, " has element type ", static_cast<int>(buffer.dtype),
                             " of XLA, which this version of callout does not know"));
}

Status Decode(const char* which, void* const* buffers, int64_t size, callout_buffer* out,
              std::span<const callout_buffer>& decoded) {
  size_t count = 0;
  for (int64_t i = 0; i < size; ++i) {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    if (buffer->dtype == XLA_FFI_DataType_TOKEN) continue;
    const DTypeRow& row = RowOf(static_cast<DType>(buffer->dtype));
    if (row.bits == 0) [[unlikely]]
      return UnknownElements(which, i, *buffer);
    callout_buffer& view = out[count++];
    view.dtype = static_cast<uint32_t>(buffer->dtype);
    view.rank = static_cast<uint32_t>(buffer->rank);
    view.data = buffer->data;
    view.dims = buffer->dims;
    view.size_bytes = (static_cast<uint64_t>(ElementCount(view)) * static_cast<uint64_t>(row.bits) + 7) / 8;
  }
  decoded = {out, count};
  return OkStatus();
}

}  // namespace

Status DecodeArgs(const XLA_FFI_Args& args, callout_buffer* out, std::span<const callout_buffer>& decoded) {
  return Decode("operand", args.args, args.size, out, decoded);
}

Status DecodeRets(const XLA_FFI_Rets& rets, callout_buffer* out, std::span<const callout_buffer>& decoded) {
  return Decode("result", rets.rets, rets.size, out, decoded);
}

Status DecodeFrame(const XLA_FFI_CallFrame& frame, callout_buffer* args, callout_buffer* results, callout_call& call) {
  std::span<const callout_buffer> operands, outputs;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame.args, args, operands));
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame.rets, results, outputs));
  call.args = args;
  call.num_args = static_cast<uint32_t>(operands.size());
  call.results = results;
  call.num_results = static_cast<uint32_t>(outputs.size());
  return OkStatus();
}

}  // namespace callout::internal
