// SPDX-License-Identifier: Apache-2.0
//
// Makes the site of a tap from its attributes, those in a program or those of a tap outside of one.
#pragma once

#include <memory>

#include "attributes/tap_attributes.h"
#include "callout/export.h"
#include "delivery/tap_site.h"

namespace callout::internal {

/// For records of `callback`, whatever the attributes call it. Thread-safe.
CALLOUT_EXPORT std::unique_ptr<TapSite> MakeTapSite(std::shared_ptr<Callback> callback, const TapAttributes& said);

}  // namespace callout::internal
