// SPDX-License-Identifier: Apache-2.0
//
// Results that no callback writes, on a device: aliases, and what `threaded` and `deferred` add. All of it is queued on
// the call's stream. The device's context is current.
#pragma once

#include <span>

#include "callout/abi.h"
#include "core/ffi/aliases.h"
#include "cuda/driver/device.h"

namespace callout::internal {

/// Checks the aliases, and queues the copies of those whose result is not in its argument's place. Thread-safe.
Status CopyAliases(const Aliases& aliases, const callout_call& call, const cuda::Device& device, cuda::CUstream stream);

/// As PassToken, see core/ffi/call_site.h.
Status PassTokenOn(const cuda::Device& device, cuda::CUstream stream, std::span<const callout_buffer>* args,
                   std::span<const callout_buffer>* results);

/// As Defer, see core/ffi/call_site.h.
Status DeferOn(const cuda::Device& device, cuda::CUstream stream, const Status& outcome,
               std::span<const callout_buffer> results);

}  // namespace callout::internal
