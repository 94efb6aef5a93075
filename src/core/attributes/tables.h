// SPDX-License-Identifier: Apache-2.0
//
// The tables of all targets, for those who write programs and documentation.
#pragma once

#include <span>

#include "callout/export.h"
#include "core/attributes/description.h"

namespace callout::internal {

struct TargetAttributes {
  std::string_view target;
  std::span<const AttributeDescription> attributes;
};

/// Sorted by name. Thread-safe.
CALLOUT_EXPORT std::span<const TargetAttributes> AllTargetAttributes();

}  // namespace callout::internal
