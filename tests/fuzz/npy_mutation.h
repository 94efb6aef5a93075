// SPDX-License-Identifier: Apache-2.0
//
// Mutations of .npy files: another text in the header, with its length, and the same number of bytes behind it.
#pragma once

#include <string>
#include <string_view>

#include "mutation.h"

namespace callout::fuzz {

inline constexpr const char* kNpyPieces[] = {"'descr'",    "'fortran_order'",
                                             "'shape'",    "True",
                                             "False",      "'<f4'",
                                             "'>f4'",      "'|b1'",
                                             "'<i8'",      "'<u2'",
                                             "'<c8'",      "'<c16'",
                                             "'<f2'",      "'|V1'",
                                             "'|V2'",      "'|i1'",
                                             "'|u1'",      "'<U3'",
                                             "'|O'",       "(",
                                             ")",          "()",
                                             "(2,)",       "(2, 3)",
                                             "(0,)",       "(1,)",
                                             "0",          "2",
                                             "-1",         "9223372036854775807",
                                             "4294967296", "{",
                                             "}",          ",",
                                             ":",          " "};
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

inline std::string MutateNpy(Mutation& mutation, const std::string& text) {
  constexpr size_t kVersion = 8;  // bytes up to the length of the header
  if (!text.starts_with(kNpyMagic) || text.size() < kVersion + 4) return mutation.Bytes(text);
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  const size_t width = byte(6) == 1 ? 2 : 4;
  size_t length = byte(8) | byte(9) << 8;
  const size_t begin = kVersion + width;
  length = std::min(length, text.size() - begin);
  std::string header = text.substr(begin, length), data = text.substr(begin + length);
  if (mutation.OneIn(8)) data = mutation.Bytes(std::move(data));
  header = mutation.Tokens(header, " ,:(){}'", kNpyPieces);
  std::string changed = text.substr(0, kVersion);
  if (mutation.OneIn(16)) changed[6] = static_cast<char>(1 + mutation.Below(3));
  size_t rest = header.size();
  for (size_t i = 0; i < (changed[6] == 1 ? 2U : 4U); ++i, rest >>= 8) changed += static_cast<char>(rest);
  return changed + header + data;
}

}  // namespace callout::fuzz
