// SPDX-License-Identifier: Apache-2.0
#include "temporary_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace callout::tools {

Result<TemporaryFile> TemporaryFile::Make() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string folder = (error ? std::filesystem::path("/tmp") : parent) / "callout-XXXXXX";
  if (mkdtemp(folder.data()) != nullptr) return TemporaryFile(std::move(folder));
  return InternalError("callout: cannot make the folder '" + folder + "': " + std::strerror(errno));
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Status TemporaryFile::Write(std::string_view bytes) const {
  errno = 0;
  std::ofstream file(path(), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.flush()) return OkStatus();
  return InternalError("callout: cannot write '" + path() + "': " + std::strerror(errno));
}

}  // namespace callout::tools
