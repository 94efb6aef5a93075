// SPDX-License-Identifier: Apache-2.0
//
// Images as PNG (RFC 2083), without compression: what a training shows is small, and its file is read once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace callout::internal {

/// `pixels`: a byte for each of 1 (grey), 3 (RGB) or 4 (RGBA) `channels`, row by row.
std::string PngOf(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels);

}  // namespace callout::internal
