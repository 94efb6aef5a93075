// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/json.h"

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

constexpr int kMaxDepth = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A parser whose functions each return whether the text is valid so far.
class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : rest_(text) {}

  bool Document(Json& value) {
    if (!Value(value, 0)) return false;
    SkipSpace();
    return rest_.empty();
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\n' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  bool TakeIf(std::string_view word) {
    SkipSpace();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool Value(Json& value, int depth) {
    if (depth > kMaxDepth) return false;
    if (TakeIf("[")) return Array(value, depth);
    if (TakeIf("{")) return Object(value, depth);
    if (TakeIf("\"")) {
      value.kind = Json::Kind::kString;
      return String(value.text);
    }
    if (TakeIf("null")) return true;
    if (TakeIf("true")) value.boolean = true;
    if (value.boolean || TakeIf("false")) {
      value.kind = Json::Kind::kBool;
      return true;
    }
    return Number(value);
  }

  bool Array(Json& array, int depth) {
    array.kind = Json::Kind::kArray;
    if (TakeIf("]")) return true;
    do {
      if (!Value(array.items.emplace_back(), depth + 1)) return false;
    } while (TakeIf(","));
    return TakeIf("]");
  }

  bool Object(Json& object, int depth) {
    object.kind = Json::Kind::kObject;
    if (TakeIf("}")) return true;
    do {
      std::string name;
      if (!TakeIf("\"") || !String(name) || !TakeIf(":")) return false;
      const auto [member, is_new] = object.members.try_emplace(std::move(name));
      if (!is_new || !Value(member->second, depth + 1)) return false;
    } while (TakeIf(","));
    return TakeIf("}");
  }

  size_t Digits(size_t at) const {
    while (at < rest_.size() && IsDigit(rest_[at])) ++at;
    return at;
  }

  bool Number(Json& number) {
    const size_t begin = !rest_.empty() && rest_[0] == '-' ? 1 : 0;
    size_t end = Digits(begin);
    if (end == begin || (rest_[begin] == '0' && end != begin + 1)) return false;
    if (end < rest_.size() && rest_[end] == '.') {
      const size_t point = end + 1;
      end = Digits(point);
      if (end == point) return false;
    }
    if (end < rest_.size() && (rest_[end] == 'e' || rest_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < rest_.size() && (rest_[exponent] == '-' || rest_[exponent] == '+')) ++exponent;
      end = Digits(exponent);
      if (end == exponent) return false;
    }
    number.kind = Json::Kind::kNumber;
    number.text = rest_.substr(0, end);
    static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);  // the process's locale may write 0,5
    number.number = strtod_l(number.text.c_str(), nullptr, c_locale);
    rest_.remove_prefix(end);
    return true;
  }

  bool String(std::string& text) {
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        text += c;
      } else if (!Escape(text)) {
        return false;
      }
    }
    return false;
  }

  bool Escape(std::string& text) {
    if (rest_.empty()) return false;
    constexpr std::string_view kLetters = "\"\\/ntrbf", kMeanings = "\"\\/\n\t\r\b\f";
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      text += kMeanings[letter];
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !Hexadecimal(code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {  // the first half of a surrogate pair
      uint32_t second = 0;
      if (!rest_.starts_with("\\u")) return false;
      rest_.remove_prefix(2);
      if (!Hexadecimal(second) || second < 0xDC00 || second > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10U) + (second - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      return false;
    }
    AppendCodePoint(code, text);
    return true;
  }

  bool Hexadecimal(uint32_t& code) {
    if (rest_.size() < 4) return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 4, code, 16);
    if (error != std::errc() || end != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

const Json* Json::Find(const std::string& name) const {
  const auto it = members.find(name);
  return it == members.end() ? nullptr : &it->second;
}

std::optional<int64_t> Json::Integer() const {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (kind != Kind::kNumber || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Json> ParseJson(std::string_view text) {
  Json value;
  return JsonParser(text).Document(value) ? std::optional(std::move(value)) : std::nullopt;
}

void AppendJsonString(std::string_view text, std::string& out) {
  // char is unsigned on aarch64, so bytes from 0x80 on need the upper bound
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) {  // most names are plain
    out.append(1, '"').append(text).append(1, '"');
    return;
  }
  out += '"';
  while (!text.empty()) {
    const size_t length = FirstCodePointBytes(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out.append(text, 0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

}  // namespace callout::internal
