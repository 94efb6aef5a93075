// SPDX-License-Identifier: Apache-2.0
//
// The tokens of PTX (PTX ISA 4.1 to 4.5). Words keep their dots, so that an instruction's spelling and a special
// register's name are one token each.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace callout::software_gpu::ptx {

/// The reason why a text cannot be read. Thrown inside the reader only.
struct ReadError : std::runtime_error {
  ReadError(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;
};

enum class TokenKind : uint8_t { kEnd, kWord, kInteger, kFloat32, kFloat64, kString, kSign };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  char sign = 0;          ///< For kSign.
  std::string_view text;  ///< Borrowed: valid as long as the text that was read. A string's text excludes its quotes.
  uint64_t value = 0;     ///< A number's value; a float's bits.
  int line = 0;
};

/// Splits the text. The last token is kEnd. Throws ReadError.
std::vector<Token> Tokenize(std::string_view text);

}  // namespace callout::software_gpu::ptx
