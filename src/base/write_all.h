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
/// end it. Thread-safe.
size_t WriteAll(int descriptor, std::span<const std::string_view> parts);
size_t WriteAll(int descriptor, std::string_view bytes);

}  // namespace callout::internal
