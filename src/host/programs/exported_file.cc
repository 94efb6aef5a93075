// SPDX-License-Identifier: Apache-2.0
#include "host/programs/exported_file.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "exported_generated.h"

namespace callout::internal {
namespace {

std::string TextOf(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

}  // namespace

std::optional<pjrt::Program> ReadExportedFile(const std::string& bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!exported::VerifyExportedBuffer(verifier)) return std::nullopt;
  const exported::Exported& file = *exported::GetExported(bytes.data());
  if (file.mlir_module_serialized() == nullptr || file.mlir_module_serialized()->size() == 0) return std::nullopt;
  pjrt::Program program;
  program.code.assign(file.mlir_module_serialized()->begin(), file.mlir_module_serialized()->end());
  program.name = TextOf(file.function_name());
  if (file.platforms() != nullptr) {
    for (const flatbuffers::String* platform : *file.platforms()) program.platforms.push_back(TextOf(platform));
  }
  // The wider field is newer.
  const int64_t devices = std::max<int64_t>(file.nr_devices(), file.nr_devices_short());
  program.num_devices = static_cast<int>(std::clamp<int64_t>(devices, 0, 1 << 20));
  if (file.module_kept_var_idx() != nullptr) {
    program.kept_arguments.assign(file.module_kept_var_idx()->begin(), file.module_kept_var_idx()->end());
  }
  program.num_tokens = file.ordered_effects() == nullptr ? 0 : file.ordered_effects()->size();
  program.has_dimension_arguments = file.uses_global_constants();
  if (file.jax_version() != nullptr) program.written_by = "jax " + file.jax_version()->str();
  return program;
}

namespace {

// Takes a part off the front of `bytes`.
std::optional<std::string_view> TakePart(std::string_view& bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof(size)) return std::nullopt;
  for (size_t i = 0; i < sizeof(size); ++i) size |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size()) return std::nullopt;
  const std::string_view part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return part;
}

Status NoFile(const std::string& why) {
  return InvalidArgument("callout: the file of programs for several shapes is damaged: " + why);
}

}  // namespace

Result<pjrt::Program> ReadShapesFile(std::string_view bytes) {
  bytes.remove_prefix(kShapesFile.size());
  std::optional<pjrt::Program> first;
  while (!bytes.empty()) {
    const auto label = TakePart(bytes);
    const auto file = label ? TakePart(bytes) : std::nullopt;
    if (!file) return NoFile("it ends too early");
    auto program = ReadExportedFile(std::string(*file));
    if (!program) return NoFile("the program for '" + std::string(*label) + "' is none");
    program->shapes = *label;
    if (first) {
      first->others.push_back(*std::move(program));
    } else {
      first = std::move(program);
    }
  }
  if (!first) return NoFile("it has no program");
  return *std::move(first);
}

}  // namespace callout::internal
