// SPDX-License-Identifier: Apache-2.0
#include "npz.h"

#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>

#include "npy.h"

namespace callout::tools {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct CloseReader {
  void operator()(void* file) const { unzClose(file); }
};
using Reader = std::unique_ptr<void, CloseReader>;

std::string Quoted(const std::string& name) { return "'" + name + "'"; }

Status CannotRead(const std::string& path) {
  return InvalidArgument("callout: cannot read '" + path + "': it is no .npz file, or a broken one");
}

// Returns the name of the archive's current file, or an empty text if the name cannot be read.
std::string CurrentName(void* archive, unz_file_info64& info) {
  char name[1024];
  const int code = unzGetCurrentFileInfo64(archive, &info, name, sizeof(name), nullptr, 0, nullptr, 0);
  return code == UNZ_OK && info.size_filename < sizeof(name) ? std::string(name, info.size_filename) : "";
}

// Returns false if the file does not have the size and the checksum that the archive gives.
bool ReadCurrent(void* archive, uint64_t size, std::string& bytes) {
  if (unzOpenCurrentFile(archive) != UNZ_OK) return false;
  // The archive may give any size, so memory grows with the bytes that are read.
  constexpr uint64_t kChunk = uint64_t{1} << 20U;
  bool is_good = true;
  while (is_good && bytes.size() < size) {
    const size_t begin = bytes.size();
    bytes.resize(begin + std::min(kChunk, size - begin));
    const int read = unzReadCurrentFile(archive, &bytes[begin], static_cast<unsigned>(bytes.size() - begin));
    bytes.resize(begin + static_cast<size_t>(std::max(read, 0)));
    is_good = read > 0;
  }
  return unzCloseCurrentFile(archive) == UNZ_OK && is_good;
}

bool WriteBytes(void* archive, const std::string& bytes) {
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t length = std::min<size_t>(bytes.size() - begin, std::numeric_limits<int32_t>::max());
    if (zipWriteInFileInZip(archive, &bytes[begin], static_cast<unsigned>(length)) != ZIP_OK) return false;
    begin += length;
  }
  return true;
}

// Stores an entry without compression, as numpy.savez does, in the ZIP64 format if needed.
bool WriteEntry(void* archive, const std::string& name, const std::string& bytes) {
  constexpr uint64_t kZip64From = 0xFFFFFFFFU;
  zip_fileinfo info = {};
  // The oldest date that the format allows: equal results give equal files.
  info.tmz_date = {0, 0, 0, 1, 0, 1980};
  const int is_large = bytes.size() >= kZip64From ? 1 : 0;
  return zipOpenNewFileInZip64(archive, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, /*method=*/0,
                               /*level=*/0, is_large) == ZIP_OK &&
         WriteBytes(archive, bytes) && zipCloseFileInZip(archive) == ZIP_OK;
}

}  // namespace

Result<NamedArrays> ReadNpz(const std::string& path, const std::vector<DType>& raw, const std::string& only) {
  errno = 0;
  const std::unique_ptr<FILE, int (*)(FILE*)> exists(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (exists == nullptr) return NotFound("callout: cannot read '" + path + "': " + std::strerror(errno));
  const Reader archive(unzOpen64(path.c_str()));
  if (archive == nullptr) return CannotRead(path);
  NamedArrays arrays;
  std::string others;
  for (int code = unzGoToFirstFile(archive.get()); code == UNZ_OK; code = unzGoToNextFile(archive.get())) {
    unz_file_info64 info;
    std::string name = CurrentName(archive.get(), info), bytes;
    const std::string shown = name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
    if (!name.empty() && !only.empty() && shown != only) {
      others += " " + Quoted(shown);
      continue;
    }
    if (name.empty() || !ReadCurrent(archive.get(), info.uncompressed_size, bytes)) return CannotRead(path);
    name = shown;
    const DType expected = raw.empty() ? DType::kInvalid : raw[std::min(arrays.size(), raw.size() - 1)];
    CALLOUT_ASSIGN_OR_RETURN(Array array, ParseNpy(bytes, Quoted(name).append(" of ").append(Quoted(path)), expected));
    arrays.emplace_back(std::move(name), std::move(array));
  }
  if (!only.empty() && arrays.empty()) {
    return NotFound("callout: '" + path + "' has no array " + Quoted(only) +
                    "; it has:" + (others.empty() ? " none" : others));
  }
  return arrays;
}

Status WriteNpz(const std::string& given, const NamedArrays& arrays) {
  std::error_code ignored;
  // Empty if the path does not exist.
  const std::filesystem::path resolved = std::filesystem::canonical(given, ignored);
  const std::string path = resolved.empty() ? given : resolved.string();
  // The finished file replaces the path, which must not be a device.
  if (!resolved.empty() && !std::filesystem::is_regular_file(resolved, ignored)) {
    return InvalidArgument("callout: cannot write '" + given + "': it is no regular file");
  }
  const std::string unfinished = path + ".part";
  errno = 0;
  void* archive = zipOpen64(unfinished.c_str(), APPEND_STATUS_CREATE);
  bool is_written = archive != nullptr;
  for (const auto& [name, array] : arrays) {
    is_written = is_written && WriteEntry(archive, name + std::string(kSuffix), FormatNpy(array));
  }
  if (archive != nullptr) is_written = zipClose(archive, nullptr) == ZIP_OK && is_written;
  if (is_written && std::rename(unfinished.c_str(), path.c_str()) == 0) return OkStatus();
  const std::string reason = std::strerror(errno);
  (void)std::remove(unfinished.c_str());
  return InternalError("callout: cannot write '" + path + "': " + reason);
}

}  // namespace callout::tools
