// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a shared library, in the form that a program carries.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "core/callbacks/embedded_library.h"
#include "core/encoding/checksums.h"

namespace callout::internal {

struct LibraryBytes {
  explicit LibraryBytes(std::string data) : bytes(std::move(data)), digest(Sha256Hex(bytes)) {}

  static LibraryBytes Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return LibraryBytes({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }

  /// Borrowed: valid as long as this object and `symbol`.
  EmbeddedLibrary With(std::string_view symbol) const { return {bytes, digest, platform, symbol}; }

  std::string bytes;
  std::string digest;
  std::string platform = NativePlatform();
};

}  // namespace callout::internal
