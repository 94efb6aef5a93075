// SPDX-License-Identifier: Apache-2.0
//
// Results on a device that no callback writes: aliases, and the additional results of `threaded` and `deferred`. All
// functions queue their work on the call's stream. They require that the device's context is current.
#pragma once

#include <span>

#include "callout/abi.h"
#include "core/ffi/aliases.h"
#include "cuda/driver/device.h"

namespace callout::internal {

/// Checks the aliases, and queues copies for results that are not in their argument's memory. Thread-safe.
Status CopyAliases(const Aliases& aliases, const callout_call& call, const cuda::Device& device, cuda::CUstream stream);

/// PassToken of core/ffi/call_site.h, on a device.
Status PassTokenOn(const cuda::Device& device, cuda::CUstream stream, std::span<const callout_buffer>* args,
                   std::span<const callout_buffer>* results);

/// Defer of core/ffi/call_site.h, on a device.
Status DeferOn(const cuda::Device& device, cuda::CUstream stream, const Status& outcome,
               std::span<const callout_buffer> results);

}  // namespace callout::internal
