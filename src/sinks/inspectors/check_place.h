// SPDX-License-Identifier: Apache-2.0
//
// Where a predicate is true, and what the values are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/callbacks/callback.h"
#include "sinks/inspectors/check_payload.h"

namespace callout::internal {

/// Everything is of the whole value, also where the device has a shard of it.
struct CheckPlace {
  std::vector<std::optional<int64_t>> lane =
      {};                           ///< One an extent of the batch; nothing where the predicate is that of all.
  std::vector<int64_t> index = {};  ///< Of the predicate, behind the batch.
  std::optional<int64_t> step = {};
  int32_t device_ordinal = 0;

  /// "lane 3, index [1,2], step 7, device 0", of those that there are.
  std::string Describe() const;
};

/// `first`: the row-major place in the record's first buffer.
CheckPlace PlaceOf(const CheckText& text, const Record& record, int64_t first);

/// The user's text with the values at the place. Where a value is not on this device, or does not go with its
/// specification, the text is as the user wrote it.
std::string TextAt(const CheckText& text, const Record& record, const CheckPlace& place);

}  // namespace callout::internal
