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

/// Why a text is not read. Thrown inside the reader only.
struct ReadError : std::runtime_error {
  ReadError(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;
};

enum class TokenKind : uint8_t { kEnd, kWord, kInteger, kFloat32, kFloat64, kString, kSign };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  char sign = 0;          ///< Of kSign.
  std::string_view text;  ///< Borrowed: valid until the text that was read ends. A string's without its quotes.
  uint64_t value = 0;     ///< Of a number; the bits of a float.
  int line = 0;
};

/// The last token is kEnd. Throws ReadError.
std::vector<Token> Tokenize(std::string_view text);

}  // namespace callout::software_gpu::ptx
