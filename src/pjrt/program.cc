// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/program.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "pjrt/exported_file.h"

namespace callout::pjrt {
namespace {

constexpr std::string_view kBytecodeMagic = "ML\xefR";

// Text begins with letters, comments and blanks, and has no zeros.
bool LooksLikeText(std::string_view bytes) {
  return !bytes.empty() && bytes.find('\0') == std::string_view::npos && bytes.find("func") != std::string_view::npos;
}

}  // namespace

std::string ArrayType::ToString() const {
  std::string text(ShortName(dtype));
  text += '[';
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return text + ']';
}

Result<Program> Program::FromBytes(std::string bytes) {
  if (!bytes.starts_with(kBytecodeMagic)) {
    if (auto exported = internal::ReadExportedFile(bytes)) return *std::move(exported);
    if (!LooksLikeText(bytes)) {
      return InvalidArgument("callout: " + std::to_string(bytes.size()) +
                             " bytes are no program: expected MLIR text, MLIR bytecode, a StableHLO portable "
                             "artifact, or a file of jax.export's Exported.serialize");
    }
  }
  Program program;
  program.code = std::move(bytes);
  return program;
}

Result<Program> Program::FromFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::string chunk(1 << 16, '\0');
  // Not by iterators of its buffer: those throw what goes wrong, such as reading a directory.
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    bytes.append(chunk, 0, static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    const StatusCode code = errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
    return Status(code, "callout: cannot read the program '" + path + "': " + std::strerror(errno));
  }
  constexpr std::string_view kPrefix = "callout: ";
  Result<Program> program = FromBytes(std::move(bytes));
  if (program.ok()) return program;
  return Status(program.status().code(), std::string(kPrefix) + "'" + path +
                                             "': " + std::string(program.status().message().substr(kPrefix.size())));
}

std::string Program::StablehloVersion() const {
  constexpr std::string_view kMark = "StableHLO_v";
  const std::string_view head = std::string_view(code).substr(0, 64);
  const size_t begin = code.starts_with(kBytecodeMagic) ? head.find(kMark) : std::string_view::npos;
  if (begin == std::string_view::npos) return "";
  const std::string_view version = head.substr(begin + kMark.size());
  return std::string(version.substr(0, version.find_first_not_of("0123456789.")));
}

}  // namespace callout::pjrt
