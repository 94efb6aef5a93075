// SPDX-License-Identifier: Apache-2.0
//
// What a plugin tells of its machine, where it does.
#pragma once

#include <vector>

#include "callout/pjrt/buffer.h"
#include "callout/pjrt/client.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Errors: the plugin's own.
Result<pjrt::Memory> Describe(const PjrtApi& api, PJRT_Memory* memory);

/// Empty if the plugin does not tell.
std::vector<pjrt::Memory> ReadMemories(const PjrtApi& api, PJRT_Device* device);

/// Where a buffer is, which the plugin owns.
Result<PJRT_Device*> DeviceOf(const PjrtApi& api, const pjrt::Buffer& buffer);

}  // namespace callout::internal
