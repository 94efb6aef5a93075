// SPDX-License-Identifier: Apache-2.0
//
// The command's .npy files.
#include "fuzz.h"
#include "npy.h"

void callout::fuzz::Try(std::string_view bytes) {
  (void)tools::ParseNpy(bytes, "the input");
  const Result<tools::Array> array = tools::ParseNpy(bytes, "the input", DType::kBfloat16);
  if (!array.ok()) return;
  (void)tools::ToText(*array);
  const Result<tools::Array> again = tools::ParseNpy(tools::FormatNpy(*array), "what was written", array->type.dtype);
  CALLOUT_CHECK(again.ok() && again->type == array->type && again->bytes == array->bytes, "written as something else");
}
