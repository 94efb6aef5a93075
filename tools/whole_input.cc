// SPDX-License-Identifier: Apache-2.0
#include "whole_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace callout::tools {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Returns false, with errno, if the file cannot be read to its end.
bool Append(std::FILE* file, std::string& bytes) {
  char chunk[1 << 16];
  errno = 0;
  while (const size_t read = std::fread(chunk, 1, sizeof(chunk), file)) bytes.append(chunk, read);
  return std::ferror(file) == 0;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, const std::string& what) {
  std::string bytes;
  errno = 0;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (file != nullptr && Append(file.get(), bytes)) return bytes;
  const int error = errno;
  const StatusCode code = error == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
  return Status(code, "callout: cannot read " + what + " '" + path + "': " + std::strerror(error));
}

Result<std::string> ReadStandardInput() {
  std::string bytes;
  if (Append(stdin, bytes)) return bytes;
  return InvalidArgument(std::string("callout: cannot read standard input: ") + std::strerror(errno));
}

}  // namespace callout::tools
