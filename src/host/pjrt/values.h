// SPDX-License-Identifier: Apache-2.0
//
// Values as PJRT passes them.
#pragma once

#include "callout/pjrt/plugin.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

pjrt::Value FromNamedValue(const PJRT_NamedValue& value);
pjrt::Values FromNamedValues(const PJRT_NamedValue* values, size_t count);

/// Borrowed: points into `name` and `value`.
PJRT_NamedValue ToNamedValue(const std::string& name, const pjrt::Value& value);

}  // namespace callout::internal
