// SPDX-License-Identifier: Apache-2.0
//
// The TFRecord format: of each record
//   its length (8 bytes) | masked CRC-32C of the length (4) | the record | masked CRC-32C of the record (4)
#pragma once

#include <string>
#include <string_view>

namespace callout::internal {

void AppendTfRecord(std::string_view record, std::string& out);

}  // namespace callout::internal
