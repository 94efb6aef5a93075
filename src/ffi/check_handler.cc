// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <string>

#include "attributes/call_attributes.h"
#include "attributes/decode.h"
#include "base/small_buffer.h"
#include "ffi/guard.h"
#include "ffi/handlers.h"
#include "ffi/host_copies.h"
#include "frame/buffer.h"
#include "frame/call_frame.h"
#include "registry/failures.h"
#include "registry/registry.h"
#include "transport/cuda/resources.h"

namespace callout::internal {
namespace {

Status BadFrame(const std::string& what) {
  return InvalidArgument("callout.v1.check: expected operands (s32[] status, values...) and the values as results; " +
                         what);
}

// The frame of a check, wherever its buffers are.
struct Check {
  explicit Check(XLA_FFI_CallFrame* frame)
      : operands(static_cast<size_t>(frame->args.size)), outputs(static_cast<size_t>(frame->rets.size)) {}

  Status Decode(XLA_FFI_CallFrame* frame) {
    CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, operands.data(), args));
    CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, outputs.data(), results));
    if (args.size() != results.size() + 1 || args[0].size_bytes != sizeof(int32_t)) {
      return BadFrame("got " + std::to_string(args.size()) + " operands and " + std::to_string(results.size()) +
                      " results");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (args[i + 1].size_bytes == results[i].size_bytes) continue;
      return BadFrame("got " + ShapeString(args[i + 1]) + " and " + ShapeString(results[i]));
    }
    return OkStatus();
  }

  // XLA lets a value and its result be one buffer where nothing else reads the operand.
  template <typename Copy>
  Status PassOn(Copy&& copy) {
    for (size_t i = 0; i < results.size(); ++i) {
      const callout_buffer& from = args[i + 1];
      if (from.data == results[i].data || from.size_bytes == 0) continue;
      CALLOUT_RETURN_IF_ERROR(copy(results[i].data, from.data, from.size_bytes));
    }
    return OkStatus();
  }

  SmallBuffer<callout_buffer, 16> operands;
  SmallBuffer<callout_buffer, 8> outputs;
  std::span<const callout_buffer> args;
  std::span<const callout_buffer> results;
};

Status FailureOf(int32_t number, std::string_view name) {
  if (std::optional<Status> failure = FindFailure(number)) return std::move(*failure);
  // The program holds the callback here too, though it never runs it.
  Result<std::shared_ptr<Callback>> callback = Registry::Get().Find(name);
  const std::string label = callback.ok() ? (*callback)->label() : std::string(name);
  return InternalError("callout: callback '" + label + "' failed in another process, which has the error");
}

Status Execute(XLA_FFI_CallFrame* frame) {
  Check check(frame);
  CALLOUT_RETURN_IF_ERROR(check.Decode(frame));
  int32_t number;
  std::memcpy(&number, check.args[0].data, sizeof(number));
  if (number != 0) {
    CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes said, DecodeAttributes<CheckAttributes>(frame->attrs));
    return FailureOf(number, said.callback);
  }
  return check.PassOn([](void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return OkStatus();
  });
}

struct CudaCheckState final : SiteState {
  explicit CudaCheckState(const CheckAttributes& said) : callback(said.callback) {}

  const std::string callback;
  cuda::PinnedPools pools;
};

Status InstantiateOnCuda(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const CheckAttributes said, DecodeAttributes<CheckAttributes>(frame->attrs));
  auto state = std::make_unique<CudaCheckState>(said);
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, SetState(frame, state.get())));
  (void)state.release();  // XLA's now
  return OkStatus();
}

Status ExecuteOnCuda(XLA_FFI_CallFrame* frame, CudaCheckState& state) {
  Check check(frame);
  CALLOUT_RETURN_IF_ERROR(check.Decode(frame));
  CALLOUT_ASSIGN_OR_RETURN(cuda::PinnedPool* const pool, state.pools.On(DeviceOrdinal(frame)));
  CALLOUT_ASSIGN_OR_RETURN(void* const found, PlatformStream(frame));
  const auto stream = static_cast<cuda::CUstream>(found);
  const std::string subject = "callback '" + state.callback + "'";
  HostCopies copies(*pool, stream, subject, check.args.first(1), {});
  CALLOUT_RETURN_IF_ERROR(copies.In());
  int32_t number;
  std::memcpy(&number, copies.args()[0].data, sizeof(number));
  if (number != 0) return FailureOf(number, state.callback);
  return check.PassOn([&](void* to, const void* from, size_t bytes) {
    return CopyOnDevice(pool->device(), stream, cuda::AddressOf(to), cuda::AddressOf(from), bytes, subject);
  });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return Guard(frame->api, [frame] { return Execute(frame); });
}

XLA_FFI_Error* callout_v1_cuda_check_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return Guard(frame->api, [frame] { return InstantiateOnCuda(frame); });
}

XLA_FFI_Error* callout_v1_cuda_check_execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  auto* state = static_cast<CudaCheckState*>(GetState(frame, &error));
  if (error != nullptr) return error;
  return Guard(frame->api, [&] { return ExecuteOnCuda(frame, *state); });
}
