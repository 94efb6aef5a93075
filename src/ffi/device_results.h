// SPDX-License-Identifier: Apache-2.0
//
// What `threaded` and `deferred` add to a call on a device: queued on its stream. The device's context is current.
#pragma once

#include <span>

#include "callout/abi.h"
#include "transport/cuda/device.h"

namespace callout::internal {

/// As PassToken, see ffi/thread_token.h.
Status PassTokenOn(const cuda::Device& device, cuda::CUstream stream, std::span<const callout_buffer>* args,
                   std::span<const callout_buffer>* results);

/// As Defer, see ffi/deferral.h.
Status DeferOn(const cuda::Device& device, cuda::CUstream stream, const Status& outcome,
               std::span<const callout_buffer> results);

}  // namespace callout::internal
