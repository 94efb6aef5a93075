// SPDX-License-Identifier: Apache-2.0
//
// ShapeProto of xla_data.proto.
#pragma once

#include <string_view>
#include <vector>

#include "callout/pjrt/program.h"
#include "callout/status.h"

namespace callout::internal {

/// The error of bytes that are not the message that they should be.
Status UnreadableHlo();

struct HloShape {
  bool is_tuple = false;
  bool is_row_major = true;                      ///< Of an array; also if nothing is said.
  pjrt::ArrayType type = {DType::kInvalid, {}};  ///< Of an array.
  std::vector<std::string_view> elements = {};   ///< Of a tuple: ShapeProtos. Borrowed from what was parsed.
};

/// Internal for bytes that are no shape of known types.
Result<HloShape> ParseHloShape(std::string_view bytes);

}  // namespace callout::internal
