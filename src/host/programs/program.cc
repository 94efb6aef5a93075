// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "callout/pjrt/program.h"
#include "callout/pjrt/signature.h"
#include "core/base/cat.h"
#include "core/base/file_io.h"
#include "host/programs/exported_file.h"

namespace callout::pjrt {
namespace {

// True if the bytes may be MLIR text, which has no zeros and has a "func".
bool LooksLikeText(std::string_view bytes) {
  return !bytes.empty() && bytes.find('\0') == std::string_view::npos && bytes.find("func") != std::string_view::npos;
}

}  // namespace

std::string ArrayType::ToString() const {
  std::string text(ShortName(dtype));
  text += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ",") + (dims[i] == kOpen ? "?" : std::to_string(dims[i]));
  }
  return text + ']';
}

Result<Program> Program::FromBytes(std::string bytes) {
  if (bytes.starts_with(internal::kShapesFile)) return internal::ReadShapesFile(bytes);
  if (!bytes.starts_with(internal::kMlirBytecode)) {
    if (auto exported = internal::ReadExportedFile(bytes)) return *std::move(exported);
    if (!LooksLikeText(bytes)) {
      return InvalidArgument(
          internal::Cat("callout: ", bytes.size(),
                        " bytes are no program: expected MLIR text, MLIR bytecode, a StableHLO portable "
                        "artifact, or a file of jax.export's Exported.serialize"));
    }
  }
  Program program;
  program.code = std::move(bytes);
  return program;
}

Result<Program> Program::FromFile(const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(std::string bytes, internal::ReadFile(path, "the program"));
  constexpr std::string_view kPrefix = "callout: ";
  Result<Program> program = FromBytes(std::move(bytes));
  if (program.ok()) return program;
  return program.status().WithMessage(std::string(kPrefix) + "'" + path +
                                      "': " + std::string(program.status().message().substr(kPrefix.size())));
}

std::string Program::StablehloVersion() const {
  constexpr std::string_view kMark = "StableHLO_v";
  const std::string_view head = std::string_view(code).substr(0, 64);
  const size_t begin = code.starts_with(internal::kMlirBytecode) ? head.find(kMark) : std::string_view::npos;
  if (begin == std::string_view::npos) return "";
  const std::string_view version = head.substr(begin + kMark.size());
  return std::string(version.substr(0, version.find_first_not_of("0123456789.")));
}

ArrayType ProgramArray::WholeType() const {
  ArrayType whole = type;
  for (size_t i = 0; i < whole.dims.size(); ++i) whole.dims[i] *= sharding.tiles[i];
  return whole;
}

}  // namespace callout::pjrt
