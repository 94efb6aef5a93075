// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/targets.h"

#include "core/ffi/handlers.h"

namespace callout::internal {
namespace {

void* Handler(XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*) noexcept) { return reinterpret_cast<void*>(handler); }

}  // namespace

std::span<const Target> Targets() {
  static const Target targets[] = {
      // On a CPU a buffer callback and a call get the same memory.
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

}  // namespace callout::internal
