// SPDX-License-Identifier: Apache-2.0
#include "core/base/cat.h"

#include <charconv>
#include <cstddef>

namespace callout::internal {
namespace {

template <typename Number>
void AppendNumber(Number number, std::string& text) {
  char digits[20];  // enough for the longest 64-bit number, with its sign
  text.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
}

}  // namespace

void TextPart::AppendTo(std::string& text) const {
  switch (kind_) {
    case Kind::kText:
      text.append(text_, size_);
      break;
    case Kind::kSigned:
      AppendNumber(static_cast<int64_t>(size_), text);
      break;
    case Kind::kUnsigned:
      AppendNumber(size_, text);
      break;
    case Kind::kCharacter:
      text += static_cast<char>(size_);
      break;
  }
}

std::string CatParts(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) part.AppendTo(text);
  return text;
}

}  // namespace callout::internal
