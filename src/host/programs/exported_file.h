// SPDX-License-Identifier: Apache-2.0
//
// Files of `Exported.serialize`: a program in a flatbuffer, with what JAX knows about it.
#pragma once

#include <optional>
#include <string>

#include "callout/pjrt/program.h"

namespace callout::internal {

/// Nothing if the bytes are no such file. The bytes may come from anywhere.
std::optional<pjrt::Program> ReadExportedFile(const std::string& bytes);

}  // namespace callout::internal
