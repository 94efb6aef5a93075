// SPDX-License-Identifier: Apache-2.0
//
// OpSharding of xla_data.proto.
#pragma once

#include <string_view>

#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::internal {

/// The sharding of an array of `rank` dimensions over `num_devices`. `bytes`: an OpSharding; empty: every device has
/// all of it. Errors: Unimplemented for arrays on some of the devices only, Internal for bytes that are no sharding.
Result<pjrt::Sharding> ParseSharding(std::string_view bytes, size_t rank, size_t num_devices);

}  // namespace callout::internal
