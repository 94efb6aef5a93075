// SPDX-License-Identifier: Apache-2.0
//
// Reads what a plugin reports about its devices' memories.
#pragma once

#include <vector>

#include "callout/pjrt/buffer.h"
#include "callout/pjrt/client.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Returns the properties of a memory. Errors: the plugin's own.
Result<pjrt::Memory> Describe(const PjrtApi& api, PJRT_Memory* memory);

/// Returns the memories of a device; empty if the plugin does not report them.
std::vector<pjrt::Memory> ReadMemories(const PjrtApi& api, PJRT_Device* device);

/// Returns the device of a buffer. Borrowed: the plugin owns it.
Result<PJRT_Device*> DeviceOf(const PjrtApi& api, const pjrt::Buffer& buffer);

}  // namespace callout::internal
