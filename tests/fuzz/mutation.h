// SPDX-License-Identifier: Apache-2.0
//
// Mutations that know a format: texts of tokens, protobuf messages, tables of words, records with their checksums.
// Mutated bytes alone rarely get past the first field. libFuzzer's own mutation is applied to leaves, and now and then
// to the whole input.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace callout::fuzz {

using Texts = std::span<const char* const>;

/// Splits text into tokens; each separator is a token of its own.
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

/// A field of a protobuf message.
struct WireField {
  uint64_t tag = 0;    // field number, with the wire type in the low bits
  uint64_t value = 0;  // value of a varint field
  std::string bytes;   // content of other fields

  bool is_bytes() const { return (tag & 7U) == 2; }
};

inline std::optional<uint64_t> TakeVarint(std::string_view& text) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

inline void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80U);
  to += static_cast<char>(value);
}

/// Parses a protobuf message; empty if `text` is none.
inline std::vector<WireField> FieldsOf(std::string_view text) {
  std::vector<WireField> fields;
  while (!text.empty()) {
    const auto tag = TakeVarint(text);
    if (!tag || *tag < 8) return {};
    WireField& field = fields.emplace_back(WireField{*tag, 0, {}});
    const unsigned type = *tag & 7U;
    uint64_t size = type == 1 ? 8 : type == 5 ? 4 : 0;
    if (type == 0 || type == 2) {
      const auto number = TakeVarint(text);
      if (!number) return {};
      (type == 0 ? field.value : size) = *number;
    }
    if (type == 3 || type == 4 || type > 5 || size > text.size()) return {};
    field.bytes = text.substr(0, size);
    text.remove_prefix(size);
  }
  return fields;
}

inline std::string MessageOf(const std::vector<WireField>& fields) {
  std::string text;
  for (const WireField& field : fields) {
    AppendVarint(field.tag, text);
    if ((field.tag & 7U) == 0) AppendVarint(field.value, text);
    if (field.is_bytes()) AppendVarint(field.bytes.size(), text);
    text += field.bytes;
  }
  return text;
}

/// One mutation of an input: its position, and the replacement.
class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  size_t Below(size_t limit) { return static_cast<size_t>(random_() % std::max<size_t>(limit, 1)); }
  bool OneIn(size_t n) { return Below(n) == 0; }

  /// Returns a number at a boundary of some format.
  uint64_t Number() {
    const size_t bits = Below(65);
    const uint64_t edge = bits == 64 ? 0 : uint64_t{1} << bits;
    return OneIn(2) ? Below(20) : edge - Below(3);
  }

  std::string Bytes(std::string text) {
    const size_t size = text.size();
    text.resize(size + 16);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
    return text;
  }

  /// Moves, doubles, drops and replaces the tokens between separators.
  std::string Tokens(std::string_view text, std::string_view separators, Texts known) {
    std::vector<std::string> tokens = TokensOf(text, separators);
    for (size_t rounds = 1 + Below(3); rounds > 0; --rounds) ChangeOne(tokens, known);
    std::string changed;
    for (const std::string& token : tokens) changed += token;
    return changed;
  }

  /// Changes the fields of a protobuf message or of one nested in it; `numbers` and `known` are field numbers and
  /// contents that it may have.
  std::string Message(std::string_view text, std::span<const uint32_t> numbers, Texts known) {
    std::vector<WireField> fields = FieldsOf(text);
    if (fields.empty()) return OneIn(2) && !known.empty() ? known[Below(known.size())] : Bytes(std::string(text));
    const size_t at = Below(fields.size());
    WireField& field = fields[at];
    const auto place = fields.begin() + static_cast<ptrdiff_t>(at);
    switch (Below(10)) {
      case 0:
        fields.erase(place);
        break;
      case 1:
        fields.insert(place, WireField(fields[Below(fields.size())]));
        break;
      case 2:
        std::swap(field, fields[Below(fields.size())]);
        break;
      case 3:
        field.tag = uint64_t{numbers[Below(numbers.size())]} << 3 | (field.tag & 7U);
        break;
      case 4: {
        const uint64_t number = numbers[Below(numbers.size())];
        if (OneIn(2)) {
          fields.insert(place, {number << 3, Number(), {}});
        } else {
          fields.insert(place, {number << 3 | 2U, 0, OneIn(2) ? Numbers() : known[Below(known.size())]});
        }
        break;
      }
      default:
        if (field.is_bytes()) {
          field.bytes = Message(field.bytes, numbers, known);
        } else if ((field.tag & 7U) == 0) {
          field.value = Number();
        } else {
          field.bytes = Bytes(field.bytes).substr(0, field.bytes.size());
          field.bytes.resize((field.tag & 7U) == 1 ? 8 : 4);
        }
    }
    return MessageOf(fields);
  }

  /// Changes a table of little-endian words of 2 or 4 bytes, as FlatBuffers have: offsets that lead elsewhere.
  std::string Words(std::string text) {
    for (size_t rounds = 1 + Below(3); rounds > 0; --rounds) {
      const size_t width = OneIn(3) ? 2 : 4;
      if (text.size() < 2 * width) return Bytes(std::move(text));
      const size_t count = text.size() / width;
      char* const to = text.data() + Below(count) * width;
      uint32_t word = 0;
      std::memcpy(&word, OneIn(2) ? to : text.data() + Below(count) * width, width);
      if (OneIn(3)) word = static_cast<uint32_t>(Number());
      word += static_cast<uint32_t>(Below(5) * width) - static_cast<uint32_t>(2 * width);
      std::memcpy(to, &word, width);
    }
    return text;
  }

 private:
  // Returns the content of a packed field.
  std::string Numbers() {
    std::string numbers;
    for (size_t i = Below(4); i > 0; --i) AppendVarint(Number(), numbers);
    return numbers;
  }

  void ChangeOne(std::vector<std::string>& tokens, Texts known) {
    const size_t at = Below(tokens.size()), other = Below(tokens.size());
    const auto place = tokens.begin() + static_cast<ptrdiff_t>(at);
    switch (Below(6)) {
      case 0:
        tokens[at] = known[Below(known.size())];
        break;
      case 1:
        tokens.insert(place, known[Below(known.size())]);
        break;
      case 2:
        if (tokens.size() > 1) tokens.erase(place);
        break;
      case 3:
        std::swap(tokens[at], tokens[other]);
        break;
      case 4:
        tokens[at] = Bytes(tokens[at]);
        break;
      default: {
        const std::vector<std::string> copy(tokens.begin() + static_cast<ptrdiff_t>(std::min(at, other)),
                                            tokens.begin() + static_cast<ptrdiff_t>(std::max(at, other)));
        tokens.insert(place, copy.begin(), copy.end());
      }
    }
  }

  std::minstd_rand random_;
};

/// Returns the result of LLVMFuzzerCustomMutator: now and then libFuzzer's own mutation, otherwise `mutate(mutation,
/// input)`.
template <typename Mutate>
size_t MutateInput(uint8_t* data, size_t size, size_t max_size, unsigned seed, Mutate&& mutate) {
  Mutation mutation(seed);
  if (mutation.OneIn(2)) return LLVMFuzzerMutate(data, size, max_size);
  std::string text = mutate(mutation, std::string(reinterpret_cast<const char*>(data), size));
  text.resize(std::min(text.size(), max_size));
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

/// Mutates an input of tokens between `separators`; `known` are some tokens of the format.
inline size_t MutateTokens(uint8_t* data, size_t size, size_t max_size, unsigned seed, std::string_view separators,
                           Texts known) {
  return MutateInput(data, size, max_size, seed, [&](Mutation& mutation, const std::string& text) {
    return mutation.Tokens(text, separators, known);
  });
}

}  // namespace callout::fuzz
