// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include "array_spec.h"
#include "base/read_file.h"
#include "npy.h"
#include "npz.h"

namespace callout::tools {
namespace {

Result<std::string> ReadArgument(const std::string& path) {
  Result<std::string> bytes = internal::ReadFile(path, "the argument");
  if (bytes.ok()) return bytes;
  return Status(bytes.status().code(), std::string(bytes.status().message()) +
                                           " (an argument is a .npy or .npz file, or f32[2,3]=0.5 and the like)");
}

Status CheckType(size_t number, const pjrt::ArrayType& type, const pjrt::ArrayType& expected,
                 const std::string& source) {
  if (type == expected) return OkStatus();
  return InvalidArgument("callout: argument " + std::to_string(number) + " of the program is " + expected.ToString() +
                         ", got " + type.ToString() + " from '" + source + "'");
}

// Looks at the type before there are elements: they may be more than there is memory.
Result<Array> ReadSpec(const std::string& text, size_t number, const std::vector<pjrt::ArrayType>& expected) {
  CALLOUT_ASSIGN_OR_RETURN(pjrt::ArrayType type, ParseArrayType(text.substr(0, text.find('='))));
  if (number >= expected.size()) return Array{std::move(type), {}};  // one too many, whatever it holds
  CALLOUT_RETURN_IF_ERROR(CheckType(number, type, expected[number], text));
  return ParseSpec(text);
}

Status Append(const std::string& text, const std::vector<pjrt::ArrayType>& expected, std::vector<Array>& arrays) {
  std::vector<DType> raw;  // of this text's arrays
  for (size_t i = arrays.size(); i < expected.size(); ++i) raw.push_back(expected[i].dtype);
  if (LooksLikeSpec(text)) {
    CALLOUT_ASSIGN_OR_RETURN(Array array, ReadSpec(text, arrays.size(), expected));
    arrays.push_back(std::move(array));
  } else if (text.ends_with(".npz")) {
    CALLOUT_ASSIGN_OR_RETURN(NamedArrays named, ReadNpz(text, raw));
    for (auto& [name, array] : named) arrays.push_back(std::move(array));
  } else {
    CALLOUT_ASSIGN_OR_RETURN(const std::string bytes, ReadArgument(text));
    CALLOUT_ASSIGN_OR_RETURN(Array array,
                             ParseNpy(bytes, "'" + text + "'", raw.empty() ? DType::kInvalid : raw.front()));
    arrays.push_back(std::move(array));
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<Array>> ReadArguments(const std::vector<std::string>& texts,
                                         const std::vector<pjrt::ArrayType>& expected) {
  for (const pjrt::ArrayType& type : expected) {
    if (type.dtype != DType::kToken) continue;
    return InvalidArgument(
        "callout: the program takes tokens, for ordered effects; callout.export keeps the order inside the program");
  }
  std::vector<Array> arrays;
  std::vector<const std::string*> sources;  // of each array
  for (const std::string& text : texts) {
    CALLOUT_RETURN_IF_ERROR(Append(text, expected, arrays));
    sources.resize(arrays.size(), &text);
  }
  if (arrays.size() != expected.size()) {
    std::string hint = "; arguments that it does not use are not among them";
    if (arrays.size() < expected.size()) {
      hint = "; for example --arg '" + expected[arrays.size()].ToString() + "=random:0'";
    }
    return InvalidArgument("callout: the program takes " + std::to_string(expected.size()) + " arguments " +
                           (expected.empty() ? "(none)" : Listed(expected)) + ", got " + std::to_string(arrays.size()) +
                           hint);
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    CALLOUT_RETURN_IF_ERROR(CheckType(i, arrays[i].type, expected[i], *sources[i]));
  }
  return arrays;
}

}  // namespace callout::tools
