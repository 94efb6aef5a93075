// SPDX-License-Identifier: Apache-2.0
#include "array_source.h"

#include <utility>

#include "array_spec.h"
#include "npy.h"
#include "temporary_file.h"
#include "whole_input.h"

namespace callout::tools {
namespace {

constexpr std::string_view kStandardInput = "-";

bool IsArchive(std::string_view bytes) { return bytes.starts_with("PK"); }

Result<std::string> ReadArrayFile(const std::string& path) {
  Result<std::string> bytes = ReadFile(path, "the array");
  if (bytes.ok()) return bytes;
  return bytes.status().WithMessage(std::string(bytes.status().message()) +
                                    " (an array is a .npy or .npz file, FILE.npz:NAME, '-' for standard input, "
                                    "or f32[2,3]=0.5 and the like)");
}

// Checks the type before allocating elements, which may exceed the memory.
Result<Array> ReadSpec(const std::string& text, std::span<const pjrt::ArrayType> wanted) {
  CALLOUT_ASSIGN_OR_RETURN(pjrt::ArrayType type, ParseArrayType(text.substr(0, text.find('='))));
  if (wanted.empty() || type != wanted.front()) return Array{std::move(type), {}};
  return ParseSpec(text);
}

// Returns the element types of the wanted arrays, for files with raw elements.
std::vector<DType> ElementsOf(std::span<const pjrt::ArrayType> wanted) {
  std::vector<DType> types;
  for (const pjrt::ArrayType& type : wanted) types.push_back(type.dtype);
  return types;
}

}  // namespace

// A file, and the name of one of its arrays. An empty name stands for all arrays of the file.
struct ArraySource::Reference {
  std::string path;
  std::string name;

  static Reference Of(const std::string& text) {
    constexpr std::string_view kArchive = ".npz:", kPicked = "-:";
    if (text.starts_with(kPicked)) return {std::string(kStandardInput), text.substr(kPicked.size())};
    const size_t at = text.rfind(kArchive);
    if (at == std::string::npos) return {text, ""};
    return {text.substr(0, at + kArchive.size() - 1), text.substr(at + kArchive.size())};
  }
};

Result<NamedArrays> ArraySource::ReadArchive(const Reference& reference, const std::vector<DType>& raw) {
  if (reference.path != kStandardInput) return ReadNpz(reference.path, raw, reference.name);
  if (!IsArchive(*input_)) return InvalidArgument("callout: standard input is no .npz file");
  CALLOUT_ASSIGN_OR_RETURN(const TemporaryFile file, TemporaryFile::Make());  // Archives need random access.
  CALLOUT_RETURN_IF_ERROR(file.Write(*input_));
  return ReadNpz(file.path(), raw, reference.name);
}

Status ArraySource::AppendNext(const std::vector<DType>& raw, std::vector<Array>& arrays) {
  const std::string_view rest = std::string_view(*input_).substr(at_);
  if (rest.empty()) return InvalidArgument("callout: standard input has no array, or no more of them");
  size_t used = 0;
  CALLOUT_ASSIGN_OR_RETURN(Array array,
                           ParseNpy(rest, "standard input", raw.empty() ? DType::kInvalid : raw.front(), &used));
  at_ += used;
  arrays.push_back(std::move(array));
  return OkStatus();
}

Status ArraySource::Append(const std::string& text, std::span<const pjrt::ArrayType> wanted,
                           std::vector<Array>& arrays) {
  if (LooksLikeSpec(text)) {
    CALLOUT_ASSIGN_OR_RETURN(Array array, ReadSpec(text, wanted));
    arrays.push_back(std::move(array));
    return OkStatus();
  }
  const Reference reference = Reference::Of(text);
  const bool is_input = reference.path == kStandardInput;
  if (is_input && !input_) {
    CALLOUT_ASSIGN_OR_RETURN(input_, ReadStandardInput());
  }
  const std::vector<DType> raw = ElementsOf(wanted);
  if (is_input ? IsArchive(*input_) || !reference.name.empty() : reference.path.ends_with(".npz")) {
    CALLOUT_ASSIGN_OR_RETURN(NamedArrays named, ReadArchive(reference, raw));
    for (auto& [name, array] : named) arrays.push_back(std::move(array));
    return OkStatus();
  }
  if (is_input) return AppendNext(raw, arrays);
  CALLOUT_ASSIGN_OR_RETURN(const std::string bytes, ReadArrayFile(text));
  CALLOUT_ASSIGN_OR_RETURN(Array array, ParseNpy(bytes, "'" + text + "'", raw.empty() ? DType::kInvalid : raw.front()));
  arrays.push_back(std::move(array));
  return OkStatus();
}

}  // namespace callout::tools
