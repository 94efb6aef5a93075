// SPDX-License-Identifier: Apache-2.0
//
// A mutator that knows a text's format: it cuts inputs at separators, and moves, doubles, drops and replaces what lies
// between them, by pieces that the format has. Bytes alone rarely get past the first field.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace callout::fuzz {

/// Each separator is a token of its own.
inline std::vector<std::string> TokensOf(std::string_view text, std::string_view separators) {
  std::vector<std::string> tokens(1);
  for (const char c : text) {
    if (separators.find(c) == std::string_view::npos) {
      tokens.back() += c;
      continue;
    }
    tokens.emplace_back(1, c);
    tokens.emplace_back();
  }
  return tokens;
}

/// What LLVMFuzzerCustomMutator is to return, for inputs of tokens between `separators`, of which `known` are some.
inline size_t MutateTokens(uint8_t* data, size_t size, size_t max_size, unsigned seed, std::string_view separators,
                           std::span<const char* const> known) {
  std::minstd_rand random(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % std::max<size_t>(limit, 1)); };
  if (below(4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> tokens = TokensOf({reinterpret_cast<const char*>(data), size}, separators);
  for (size_t rounds = 1 + below(3); rounds > 0; --rounds) {
    const size_t at = below(tokens.size()), other = below(tokens.size());
    switch (below(5)) {
      case 0:
        tokens[at] = known[below(known.size())];
        break;
      case 1:
        tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(at), known[below(known.size())]);
        break;
      case 2:
        if (tokens.size() > 1) tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(at));
        break;
      case 3:
        std::swap(tokens[at], tokens[other]);
        break;
      default: {
        const std::vector<std::string> copy(tokens.begin() + static_cast<ptrdiff_t>(std::min(at, other)),
                                            tokens.begin() + static_cast<ptrdiff_t>(std::max(at, other)));
        tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(at), copy.begin(), copy.end());
      }
    }
  }
  std::string text;
  for (const std::string& token : tokens) text += token;
  text.resize(std::min(text.size(), max_size));
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace callout::fuzz
