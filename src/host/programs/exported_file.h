// SPDX-License-Identifier: Apache-2.0
//
// Files of `Exported.serialize`, a program in a flatbuffer with what JAX knows about it; and of callout.export(...,
// shapes=...), one program for each of several shapes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "callout/pjrt/program.h"

namespace callout::internal {

/// Nothing if the bytes are no such file. The bytes may come from anywhere.
std::optional<pjrt::Program> ReadExportedFile(const std::string& bytes);

/// How the files begin that callout.export(..., shapes=...) writes: then, for each program, the number of bytes (u64,
/// little-endian) and the text of its label, and the same of its file of `Exported.serialize`.
inline constexpr std::string_view kShapesFile = "callout.programs 1\n";

/// `bytes` begin as such a file. InvalidArgument for what is none.
Result<pjrt::Program> ReadShapesFile(std::string_view bytes);

}  // namespace callout::internal
