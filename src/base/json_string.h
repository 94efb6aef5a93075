// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace callout::internal {

/// Appends `text` as a JSON string, quotes included. A byte that is not UTF-8 becomes U+FFFD: readers refuse it.
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace callout::internal
