// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/targets.h"

#include <algorithm>
#include <utility>

#include "core/attributes/jax_calls.h"
#include "core/ffi/handlers.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {
namespace {

void* Handler(XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*) noexcept) { return reinterpret_cast<void*>(handler); }

}  // namespace

std::span<const Target> Targets() {
  static const Target targets[] = {
      // On a CPU, a buffer callback and a call get the same memory.
      {.name = "callout.v1.buffer",
       .platform = "cpu",
       .instantiate = Handler(&callout_v1_call_instantiate),
       .execute = Handler(&callout_v1_call_execute)},
      {.name = "callout.v1.buffer",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_cuda_buffer_instantiate),
       .initialize = Handler(&callout_v1_cuda_buffer_initialize),
       .execute = Handler(&callout_v1_cuda_buffer_execute)},
      {.name = "callout.v1.buffer_capturable",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_cuda_buffer_instantiate),
       .initialize = Handler(&callout_v1_cuda_buffer_initialize),
       .execute = Handler(&callout_v1_buffer_capturable_execute)},
      {.name = "callout.v1.call",
       .platform = "cpu",
       .instantiate = Handler(&callout_v1_call_instantiate),
       .execute = Handler(&callout_v1_call_execute)},
      {.name = "callout.v1.call",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_cuda_call_instantiate),
       .initialize = Handler(&callout_v1_cuda_call_initialize),
       .execute = Handler(&callout_v1_cuda_call_execute)},
      {.name = "callout.v1.check", .platform = "cpu", .execute = Handler(&callout_v1_check_execute)},
      {.name = "callout.v1.check",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_cuda_check_instantiate),
       .initialize = Handler(&callout_v1_cuda_check_initialize),
       .execute = Handler(&callout_v1_cuda_check_execute)},
      {.name = "callout.v1.gathered_call",
       .platform = "cpu",
       .instantiate = Handler(&callout_v1_gathered_call_instantiate),
       .execute = Handler(&callout_v1_gathered_call_execute)},
      {.name = "callout.v1.gathered_tap",
       .platform = "cpu",
       .instantiate = Handler(&callout_v1_gathered_tap_instantiate),
       .execute = Handler(&callout_v1_gathered_tap_execute)},
      {.name = "callout.v1.image",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_image_instantiate),
       .initialize = Handler(&callout_v1_image_initialize),
       .execute = Handler(&callout_v1_image_execute)},
      {.name = "callout.v1.image_sync",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_image_instantiate),
       .initialize = Handler(&callout_v1_image_initialize),
       .execute = Handler(&callout_v1_image_sync_execute)},
      {.name = "callout.v1.read",
       .platform = "cpu",
       .instantiate = Handler(&callout_v1_read_instantiate),
       .execute = Handler(&callout_v1_read_execute)},
      {.name = "callout.v1.read",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_cuda_read_instantiate),
       .initialize = Handler(&callout_v1_cuda_read_initialize),
       .execute = Handler(&callout_v1_cuda_read_execute)},
      {.name = "callout.v1.tap",
       .platform = "cpu",
       .instantiate = Handler(&callout_v1_tap_instantiate),
       .execute = Handler(&callout_v1_tap_execute)},
      {.name = "callout.v1.tap",
       .platform = "cuda",
       .instantiate = Handler(&callout_v1_tap_instantiate),
       .initialize = Handler(&callout_v1_cuda_tap_initialize),
       .execute = Handler(&callout_v1_cuda_tap_execute)},
  };
  return targets;
}

namespace {

thread_local const XLA_FFI_Api* t_api = nullptr;

XLA_FFI_Error* Bootstrap(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (!AnswerMetadata(frame, /*stateful=*/false, &error)) {
    return ToFfiError(frame->api, InternalError("callout: the bootstrap handler is not for programs"));
  }
  t_api = frame->api;
  return error;
}

XLA_FFI_Handler* AsHandler(void* handler) { return reinterpret_cast<XLA_FFI_Handler*>(handler); }

Handlers HandlersOf(const Target& target) {
  return {AsHandler(target.instantiate), AsHandler(target.initialize), AsHandler(target.execute)};
}

}  // namespace

void* BootstrapHandler() { return reinterpret_cast<void*>(&Bootstrap); }

Result<const XLA_FFI_Api*> RegisterTargetsWithRuntime() {
  const XLA_FFI_Api* api = std::exchange(t_api, nullptr);
  if (api == nullptr) {
    return FailedPrecondition("callout: the plugin did not ask for the metadata of the handler that it was given");
  }
  for (const Target& target : Targets()) {
    CALLOUT_RETURN_IF_ERROR(RegisterHandlers(api, target.name, target.platform, HandlersOf(target)));
  }
  for (const JaxTarget& jax : kJaxTargets) {
    const std::string_view ours = jax.takes_device_memory ? "callout.v1.buffer" : "callout.v1.call";
    const auto found = std::ranges::find_if(
        Targets(), [&](const Target& target) { return target.name == ours && target.platform == jax.platform; });
    // Registration fails if the process has JAX's own handlers, which stay.
    if (found != Targets().end()) (void)RegisterHandlers(api, jax.name, jax.platform, HandlersOf(*found));
  }
  return api;
}

}  // namespace callout::internal
