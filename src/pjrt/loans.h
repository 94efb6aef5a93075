// SPDX-License-Identifier: Apache-2.0
//
// Arrays of the host's memory on another device of the same plugin than the one that made them, without a copy.
#pragma once

#include <memory>

#include "callout/pjrt/buffer.h"

namespace callout::internal {

/// `source` as an array on `device`, of `client`. Its memory is `source`'s where the plugin can share it: `source` may
/// be destroyed meanwhile, and its memory stays until no program reads the result. What made `source` outlives
/// `client`. Blocks until `source` is there. Errors: those of the program that makes it. Thread-safe.
Result<pjrt::Buffer> Borrow(const pjrt::Buffer& source, std::shared_ptr<const pjrt::Client> client,
                            PJRT_Device* device);

/// True if `source` is lent: it is then destroyed when it comes back, and not the caller's any more. Thread-safe.
bool LeaveToBorrowers(PJRT_Buffer* source);

}  // namespace callout::internal
