// SPDX-License-Identifier: Apache-2.0
#include "testing/json.h"

#include <cstdlib>
#include <regex>

namespace callout::internal {
namespace {

struct Malformed {};

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Json Document() {
    Json value = Value();
    SkipSpace();
    if (!rest_.empty()) throw Malformed();
    return value;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\n' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  char Take() {
    if (rest_.empty()) throw Malformed();
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }
  bool TakeIf(std::string_view word) {
    SkipSpace();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void Expect(std::string_view word) {
    if (!TakeIf(word)) throw Malformed();
  }

  Json Value() {
    if (TakeIf("[")) return Array();
    if (TakeIf("{")) return Object();
    if (TakeIf("\"")) return {.kind = Json::Kind::kString, .text = String()};
    if (TakeIf("true")) return {.kind = Json::Kind::kBool, .boolean = true};
    if (TakeIf("false")) return {.kind = Json::Kind::kBool, .boolean = false};
    if (TakeIf("null")) return {};
    return Number();
  }

  Json Array() {
    Json array{.kind = Json::Kind::kArray};
    if (TakeIf("]")) return array;
    do array.items.push_back(Value());
    while (TakeIf(","));
    Expect("]");
    return array;
  }

  Json Object() {
    Json object{.kind = Json::Kind::kObject};
    if (TakeIf("}")) return object;
    do {
      Expect("\"");
      std::string name = String();
      Expect(":");
      if (!object.members.emplace(std::move(name), Value()).second) throw Malformed();
    } while (TakeIf(","));
    Expect("}");
    return object;
  }

  Json Number() {
    static const std::regex kNumber("^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?");
    std::cmatch match;
    if (!std::regex_search(rest_.data(), rest_.data() + rest_.size(), match, kNumber)) throw Malformed();
    Json number{.kind = Json::Kind::kNumber, .text = match.str()};
    number.number = std::strtod(number.text.c_str(), nullptr);
    rest_.remove_prefix(number.text.size());
    return number;
  }

  std::string String() {
    std::string text;
    for (char c = Take(); c != '"'; c = Take()) {
      if (static_cast<unsigned char>(c) < 0x20) throw Malformed();
      text += c == '\\' ? Escape() : c;
    }
    return text;
  }

  char Escape() {
    const char c = Take();
    if (c == '"' || c == '\\' || c == '/') return c;
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c == 'r') return '\r';
    if (c == 'b') return '\b';
    if (c == 'f') return '\f';
    if (c != 'u' || rest_.size() < 4) throw Malformed();
    const std::string digits(rest_.substr(0, 4));
    rest_.remove_prefix(4);
    char* end = nullptr;
    const long code = std::strtol(digits.c_str(), &end, 16);
    if (end != digits.c_str() + 4 || code > 0xff) throw Malformed();
    return static_cast<char>(code);
  }

  std::string_view rest_;
};

}  // namespace

std::optional<Json> ParseJson(std::string_view text) {
  try {
    return Parser(text).Document();
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

}  // namespace callout::internal
