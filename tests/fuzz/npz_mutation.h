// SPDX-License-Identifier: Apache-2.0
//
// Mutations of .npz files: archives of mutated .npy files, packed again, so that sizes and checksums are valid.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mutation.h"
#include "npy_mutation.h"

namespace callout::fuzz {

/// A file of an archive that is stored without compression.
struct StoredFile {
  std::string name;
  std::string bytes;
};

inline std::string LittleEndian(uint64_t value, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i, value >>= 8) bytes += static_cast<char>(value);
  return bytes;
}

/// Returns the files before the first compressed one. Format: PKWARE's APPNOTE 6.3.10, 4.3.7.
inline std::vector<StoredFile> StoredFilesOf(std::string_view archive) {
  constexpr size_t kHeader = 30;
  std::vector<StoredFile> files;
  const auto number = [&](size_t at, size_t width) {
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(archive[at + i]);
    return value;
  };
  while (archive.size() >= kHeader && archive.starts_with("PK\3\4") && number(8, 2) == 0) {
    const uint64_t size = number(18, 4), name = number(26, 2), extra = number(28, 2);
    if (kHeader + name + extra + size > archive.size()) break;
    files.push_back(
        {std::string(archive.substr(kHeader, name)), std::string(archive.substr(kHeader + name + extra, size))});
    archive.remove_prefix(kHeader + name + extra + size);
  }
  return files;
}

/// Packs an archive: APPNOTE 4.3.7, 4.3.12 and 4.3.16.
inline std::string ArchiveOf(const std::vector<StoredFile>& files) {
  std::string archive, directory;
  for (const auto& [name, bytes] : files) {
    const uint64_t sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    // Version, flags, method, time and date, followed by the fields that both headers have.
    const std::string common = LittleEndian(20, 2) + LittleEndian(0, 8) + LittleEndian(sum, 4) +
                               LittleEndian(bytes.size(), 4) + LittleEndian(bytes.size(), 4) +
                               LittleEndian(name.size(), 2) + LittleEndian(0, 2);
    directory += "PK\1\2" + LittleEndian(20, 2) + common + LittleEndian(0, 10) + LittleEndian(archive.size(), 4) + name;
    archive += "PK\3\4" + common + name + bytes;
  }
  const std::string end = "PK\5\6" + LittleEndian(0, 4) + LittleEndian(files.size(), 2) +
                          LittleEndian(files.size(), 2) + LittleEndian(directory.size(), 4) +
                          LittleEndian(archive.size(), 4) + LittleEndian(0, 2);
  return archive + directory + end;
}

inline std::string MutateNpz(Mutation& mutation, const std::string& text) {
  std::vector<StoredFile> files = StoredFilesOf(text);
  if (files.empty()) return mutation.Bytes(text);
  const size_t at = mutation.Below(files.size());
  switch (mutation.Below(6)) {
    case 0:
      files[at].name = mutation.Bytes(files[at].name);
      break;
    case 1:
      files.push_back(files[at]);
      break;
    case 2:
      files.erase(files.begin() + static_cast<ptrdiff_t>(at));
      break;
    default:
      files[at].bytes = MutateNpy(mutation, files[at].bytes);
  }
  return ArchiveOf(files);
}

}  // namespace callout::fuzz
