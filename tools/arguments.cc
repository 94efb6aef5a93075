// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <algorithm>
#include <span>

#include "core/base/cat.h"

namespace callout::tools {
namespace {

Status CheckType(size_t number, const pjrt::ArrayType& type, const pjrt::ArrayType& expected,
                 const std::string& source) {
  if (type == expected) return OkStatus();
  return InvalidArgument(internal::Cat("callout: argument ", number, " of the program is ", expected.ToString(),
                                       ", got ", type.ToString(), " from '", source, "'"));
}

}  // namespace

Result<std::vector<Array>> ReadArguments(const std::vector<std::string>& texts,
                                         const std::vector<pjrt::ArrayType>& expected, ArraySource& source) {
  std::vector<Array> arrays;
  for (const std::string& text : texts) {
    const size_t first = std::min(arrays.size(), expected.size());
    CALLOUT_RETURN_IF_ERROR(source.Append(text, std::span(expected).subspan(first), arrays));
    for (size_t i = first; i < std::min(arrays.size(), expected.size()); ++i) {
      CALLOUT_RETURN_IF_ERROR(CheckType(i, arrays[i].type, expected[i], text));
    }
  }
  if (arrays.size() != expected.size()) {
    std::string hint = "; arguments that it does not use are not among them";
    if (arrays.size() < expected.size()) {
      hint = "; for example --arg '" + expected[arrays.size()].ToString() + "=random:0'";
    }
    return InvalidArgument(internal::Cat("callout: the program takes ", expected.size(), " arguments ",
                                         expected.empty() ? "(none)" : Listed(expected), ", got ", arrays.size(),
                                         hint));
  }
  return arrays;
}

}  // namespace callout::tools
