// SPDX-License-Identifier: Apache-2.0
#include "frame/call_frame.h"

#include "callout/dtype.h"
#include "frame/buffer.h"

namespace callout::internal {
namespace {

uint32_t Decode(void* const* buffers, int64_t size, callout_buffer* out) {
  uint32_t count = 0;
  for (int64_t i = 0; i < size; ++i) {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    if (buffer->dtype == XLA_FFI_DataType_TOKEN) continue;
    callout_buffer& view = out[count++];
    view.dtype = static_cast<uint32_t>(buffer->dtype);
    view.rank = static_cast<uint32_t>(buffer->rank);
    view.data = buffer->data;
    view.dims = buffer->dims;
    view.size_bytes = PackedBytes(static_cast<DType>(view.dtype), ElementCount(view));
  }
  return count;
}

}  // namespace

uint32_t DecodeArgs(const XLA_FFI_Args& args, callout_buffer* out) { return Decode(args.args, args.size, out); }
uint32_t DecodeRets(const XLA_FFI_Rets& rets, callout_buffer* out) { return Decode(rets.rets, rets.size, out); }

}  // namespace callout::internal
