// SPDX-License-Identifier: Apache-2.0
#include "host/programs/shapes_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "host/programs/exported_file.h"

namespace callout::internal {
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
