// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the command's .npy files.
#include "fuzz.h"
#include "npy.h"
#include "npy_mutation.h"

void callout::fuzz::Try(std::string_view bytes) {
  (void)tools::ParseNpy(bytes, "the input");
  const Result<tools::Array> array = tools::ParseNpy(bytes, "the input", DType::kBfloat16);
  if (!array.ok()) return;
  (void)tools::ToText(*array);
  const Result<tools::Array> again = tools::ParseNpy(tools::FormatNpy(*array), "what was written", array->type.dtype);
  CALLOUT_CHECK(again.ok() && again->type == array->type && again->bytes == array->bytes, "written as something else");
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateInput(data, size, max_size, seed, callout::fuzz::MutateNpy);
}
