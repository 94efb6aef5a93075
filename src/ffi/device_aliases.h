// SPDX-License-Identifier: Apache-2.0
//
// Aliases whose buffers are on a CUDA device.
#pragma once

#include "ffi/aliases.h"
#include "transport/cuda/device.h"

namespace callout::internal {

/// Checks the aliases, and queues the copies of those whose result is not in its argument's place. The device's context
/// is current. Thread-safe.
Status CopyAliases(const Aliases& aliases, const callout_call& call, const cuda::Device& device, cuda::CUstream stream);

}  // namespace callout::internal
