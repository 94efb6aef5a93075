// SPDX-License-Identifier: Apache-2.0
//
// The command's SPECs of arrays.
#include "array_spec.h"
#include "fuzz.h"

void callout::fuzz::Try(std::string_view bytes) {
  constexpr int64_t kMostElements = 1 << 12;  // larger ones are wanted, but only take time here
  const Result<pjrt::ArrayType> type = tools::ParseArrayType(bytes.substr(0, bytes.find('=')));
  if (type.ok()) {
    const Result<int64_t> elements = tools::ElementCount(*type);
    if (elements.ok() && *elements > kMostElements) return;
  }
  const Result<tools::Array> array = tools::ParseSpec(bytes);
  if (!array.ok()) return;
  CALLOUT_CHECK(type.ok() && array->type == *type, "an array of another type");
  (void)tools::ToText(*array);
}
