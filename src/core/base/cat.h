// SPDX-License-Identifier: Apache-2.0
//
// Texts that are joined from parts: Cat("expected ", count, " bytes, got ", name), and Join(shape, ", ").
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "callout/export.h"

namespace callout::internal {

/// A text, a character or an integer, which is written like std::to_string writes it. int8_t and uint8_t are numbers.
/// Borrowed: valid until the end of the expression that made it.
class TextPart {
 public:
  template <std::convertible_to<std::string_view> Text>
  TextPart(const Text& text) {  // NOLINT(google-explicit-constructor): Cat converts each argument
    const std::string_view view = text;
    text_ = view.data();
    size_ = view.size();
  }
  template <std::signed_integral Number>
  TextPart(Number number)  // NOLINT(google-explicit-constructor)
      : kind_(Kind::kSigned), size_(static_cast<uint64_t>(static_cast<int64_t>(number))) {}
  template <std::unsigned_integral Number>
    requires(!std::same_as<Number, bool>)
  TextPart(Number number) : kind_(Kind::kUnsigned), size_(number) {}  // NOLINT(google-explicit-constructor)
  TextPart(char character) : kind_(Kind::kCharacter), size_(static_cast<unsigned char>(character)) {}  // NOLINT
  template <typename Number>
    requires std::same_as<Number, bool> || std::floating_point<Number>
  TextPart(Number) = delete;  // The caller chooses the words, or the number of digits.

  void AppendTo(std::string& text) const;

 private:
  enum class Kind : uint8_t { kText, kSigned, kUnsigned, kCharacter };

  Kind kind_ = Kind::kText;
  const char* text_ = nullptr;
  uint64_t size_;  // size of the text; else the bits of the number, or the character
};

CALLOUT_EXPORT std::string CatParts(std::initializer_list<TextPart> parts);

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  return CatParts({TextPart(parts)...});
}

/// Returns the elements of `range`, or the results of `part` for each, with `separator` between them.
template <typename Range, typename Part = std::identity>
std::string Join(const Range& range, std::string_view separator, Part part = {}) {
  std::string text;
  std::string_view before;
  for (const auto& element : range) {
    text += Cat(before, std::invoke(part, element));
    before = separator;
  }
  return text;
}

}  // namespace callout::internal
