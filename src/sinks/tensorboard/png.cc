// SPDX-License-Identifier: Apache-2.0
#include "sinks/tensorboard/png.h"

#include <algorithm>

#include "core/base/invariant.h"
#include "core/encoding/checksums.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxStored = 65535;

void AppendBig(uint32_t number, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> static_cast<unsigned>(shift));
}

void AppendChunk(std::string_view type, std::string_view data, std::string& out) {
  AppendBig(static_cast<uint32_t>(data.size()), out);
  out += type;
  out += data;
  AppendBig(Crc32(data, Crc32(type)), out);
}

uint32_t Adler32(std::string_view bytes) {
  constexpr uint32_t kModulus = 65521;
  constexpr size_t kBeforeOverflow = 5552;  // bytes after which the second sum still fits
  uint32_t a = 1, b = 0;
  while (!bytes.empty()) {
    for (const char byte : bytes.substr(0, kBeforeOverflow)) b += a += static_cast<uint8_t>(byte);
    a %= kModulus;
    b %= kModulus;
    bytes.remove_prefix(std::min(bytes.size(), kBeforeOverflow));
  }
  return b << 16U | a;
}

// As a zlib stream (RFC 1950) of stored blocks.
std::string Stored(std::string_view bytes) {
  std::string stream = "\x78\x01";
  for (std::string_view rest = bytes;;) {
    const auto size = static_cast<uint32_t>(std::min(rest.size(), kMaxStored));
    const bool is_last = size == rest.size();
    for (const uint32_t byte : {is_last ? 1U : 0U, size, size >> 8U, ~size, ~size >> 8U}) {
      stream += static_cast<char>(byte);
    }
    stream += rest.substr(0, size);
    rest.remove_prefix(size);
    if (is_last) break;
  }
  AppendBig(Adler32(bytes), stream);
  return stream;
}

}  // namespace

std::string PngOf(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels) {
  const size_t row_bytes = size_t{width} * channels;
  CALLOUT_CHECK(pixels.size() == row_bytes * height, "an image has a byte for each channel of each pixel");
  std::string header;
  AppendBig(width, header);
  AppendBig(height, header);
  header += '\x08';  // bits
  header += channels == 1 ? '\x00' : channels == 3 ? '\x02' : '\x06';
  header.append(3, '\0');  // deflate, filters by row, not interlaced
  std::string rows;
  rows.reserve(pixels.size() + height);
  for (uint32_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    rows += pixels.substr(row * row_bytes, row_bytes);
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  AppendChunk("IHDR", header, png);
  AppendChunk("IDAT", Stored(rows), png);
  AppendChunk("IEND", "", png);
  return png;
}

}  // namespace callout::internal
