// SPDX-License-Identifier: Apache-2.0
//
// Writing to a file, pipe or terminal until all is written.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace callout::internal {

/// How many bytes were written; errno says why not all. Blocks as long as whoever reads a pipe does not, also where the
/// descriptor does not block by itself (a program that shares standard output may have set O_NONBLOCK). Signals do not
/// end it. `patience_ms`: how long such a descriptor may have no room, -1 for ever; then errno is EAGAIN. Thread-safe.
size_t WriteAll(int descriptor, std::span<const std::string_view> parts, int patience_ms = -1);
size_t WriteAll(int descriptor, std::string_view bytes, int patience_ms = -1);

}  // namespace callout::internal
