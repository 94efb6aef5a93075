// SPDX-License-Identifier: Apache-2.0
#include "core/frame/call_frame.h"

#include <string>

#include "core/frame/buffer.h"
#include "core/frame/dtype_row.h"

namespace callout::internal {
namespace {

Status UnknownElements(const char* which, int64_t i, const XLA_FFI_Buffer& buffer) {
  return InvalidArgument("callout: " + std::string(which) + " " + std::to_string(i) + " has element type " +
                         std::to_string(static_cast<int>(buffer.dtype)) +
                         " of XLA, which this version of callout does not know");
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
