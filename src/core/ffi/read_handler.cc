// SPDX-License-Identifier: Apache-2.0
//
// The handlers of callout.v1.read: a program reads objects of the host by their handles.
#include <memory>
#include <span>

#include "callout/dtype.h"
#include "core/attributes/decode.h"
#include "core/attributes/site_attributes.h"
#include "core/base/cat.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/handlers.h"
#include "core/ffi/read_state.h"
#include "core/frame/buffer.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"
#include "core/handles/handle_table.h"

namespace callout::internal {
namespace {

Status InstantiateRead(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const ReadAttributes attributes, DecodeAttributes<ReadAttributes>(frame->attrs));
  return KeepState(frame, std::make_unique<ReadState>(attributes));
}

HandleTable& Table() {
  static HandleTable& table = HandleTable::Get();
  return table;
}

Status ReadAlone(const Handle& handle, HandleKind kind, const Wanted& wanted) {
  const HandleTable::Found found = Table().Find(handle, kind);
  if (!found) [[unlikely]]
    return Table().WhyNotFound(handle, kind);
  return found->ReadInto(wanted);
}

Status NoHandles(std::span<const callout_buffer> args) {
  return InvalidArgument(Cat("callout.v1.read: expected handles, u32[...,4], got ",
                             args.size() == 1 ? ShapeString(args[0]) : Cat(args.size(), " operands")));
}

Status NoHandles(XLA_FFI_CallFrame* frame) {
  SmallBuffer<callout_buffer, 1> operands(static_cast<size_t>(frame->args.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, operands.data(), args));
  return NoHandles(args);
}

/// Returns whether an operand, XLA's buffer or ours, has handles.
template <typename Buffer>
bool HasHandles(const Buffer& operand) {
  return static_cast<uint32_t>(operand.dtype) == static_cast<uint32_t>(DType::kUint32) && operand.rank > 0 &&
         operand.dims[operand.rank - 1] == 4;
}

/// Calls `read(handle, wanted)`, which returns a Status, for each handle of an operand that HasHandles.
template <typename Buffer, typename Read>
Status ReadEach(const Buffer& operand, std::span<const callout_buffer> results, Read&& read) {
  Wanted wanted{.results = results};
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(operand.rank); ++i) {
    wanted.lanes *= static_cast<uint64_t>(operand.dims[i]);
  }
  for (; wanted.lane < wanted.lanes; ++wanted.lane) {
    const Handle handle = Handle::Of(static_cast<const std::byte*>(operand.data) + wanted.lane * sizeof(Handle));
    CALLOUT_RETURN_IF_ERROR(read(handle, wanted));
  }
  return OkStatus();
}

/// Decodes the frame's operand here, which costs half of what DecodeArgs does.
template <typename Read>
Status ReadFrame(XLA_FFI_CallFrame* frame, Read&& read) {
  const auto* const operand = frame->args.size == 1 ? static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]) : nullptr;
  if (operand == nullptr || !HasHandles(*operand)) [[unlikely]]
    return NoHandles(frame);
  SmallBuffer<callout_buffer, 8> outputs(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> results;
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, outputs.data(), results));
  return ReadEach(*operand, results, read);
}

/// Returns the kind that a program reads; null unless `kind` is the only attribute. One device then reads alone, and
/// asking XLA for the state would cost more than the reading.
const HandleKind* OnlyKind(const XLA_FFI_Attrs& attrs) {
  if (attrs.size != 1) return nullptr;  // otherwise InstantiateRead found `kind` in the attribute
  return static_cast<const HandleKind*>(static_cast<const XLA_FFI_Scalar*>(attrs.attrs[0])->value);
}

}  // namespace

Status ReadState::ReadOne(XLA_FFI_CallFrame* frame, const Handle& handle, const Wanted& wanted) const {
  if (devices_ == 1) return ReadAlone(handle, kind_, wanted);
  const auto read = [&]() -> Result<Answer> {
    const HandleTable::Found found = Table().Find(handle, kind_);
    if (!found) return Table().WhyNotFound(handle, kind_);
    return found->Read();
  };
  CALLOUT_ASSIGN_OR_RETURN(const Answer answer, agreement_.Ask(RunId(frame), handle, DeviceOrdinal(frame), read));
  return Write(*answer, wanted);
}

Status ReadState::Read(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> handles,
                       std::span<const callout_buffer> results) const {
  if (handles.size() != 1 || !HasHandles(handles[0])) return NoHandles(handles);
  return ReadEach(handles[0], results,
                  [&](const Handle& handle, const Wanted& wanted) { return ReadOne(frame, handle, wanted); });
}

Status ReadState::ReadOnHost(XLA_FFI_CallFrame* frame) const {
  return ReadFrame(frame, [&](const Handle& handle, const Wanted& wanted) { return ReadOne(frame, handle, wanted); });
}

}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_read_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateRead);
}

XLA_FFI_Error* callout_v1_read_execute(XLA_FFI_CallFrame* frame) noexcept {
  const HandleKind* const kind = frame->extension_start == nullptr ? OnlyKind(frame->attrs) : nullptr;
  if (kind == nullptr) {
    return RunWithState<ReadState>(frame,
                                   [](XLA_FFI_CallFrame* f, const ReadState& state) { return state.ReadOnHost(f); });
  }
  return Guard(frame->api, [&] {
    return NoteOfRun(frame, ReadFrame(frame, [&](const Handle& handle, const Wanted& wanted) {
                       return ReadAlone(handle, *kind, wanted);
                     }));
  });
}
