// SPDX-License-Identifier: Apache-2.0
#include "ptx/lexer.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace callout::software_gpu::ptx {
namespace {

constexpr size_t kMaxNumber = 80;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool IsName(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text.substr(0, text.find('\0'))) {}

  std::vector<Token> Run() {
    std::vector<Token> tokens;
    while (SkipSpace()) tokens.push_back(Next());
    tokens.push_back({TokenKind::kEnd, 0, "end of the text", 0, line_});
    return tokens;
  }

 private:
  char At(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  /// Skips to the next token. Returns false at the end.
  bool SkipSpace() {
    while (at_ < text_.size()) {
      if (At() == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(At())) != 0) {
        ++at_;
      } else if (At() == '/' && At(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (At() == '/' && At(1) == '*') {
        SkipComment();
      } else {
        return true;
      }
    }
    return false;
  }

  void SkipComment() {
    const size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) throw ReadError(line_, "a comment without an end");
    for (; at_ < end + 2; ++at_) line_ += At() == '\n';
  }

  Token Next() {
    const char c = At();
    if (IsDigit(c)) return Number();
    if (IsName(c) || (c == '.' && IsName(At(1)))) return Word();
    if (c == '"') return String();
    if (std::string_view("{}()[]<>,;:=+-!|@~*").find(c) == std::string_view::npos) {
      throw ReadError(line_, "unknown character '" + std::string(1, c) + "'");
    }
    return {TokenKind::kSign, c, text_.substr(at_++, 1), 0, line_};
  }

  Token Word() {
    const size_t begin = at_;
    const bool directive = At() == '.';  // `.reg.b32` is two words
    while (IsName(At()) || (At() == '.' && IsName(At(1)) && (!directive || at_ == begin)) ||
           (At() == ':' && At(1) == ':')) {
      at_ += At() == ':' ? 2 : 1;
    }
    return {TokenKind::kWord, 0, text_.substr(begin, at_ - begin), 0, line_};
  }

  Token String() {
    const size_t end = text_.find_first_of("\"\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') throw ReadError(line_, "a string without an end");
    Token token{TokenKind::kString, 0, text_.substr(at_ + 1, end - at_ - 1), 0, line_};
    at_ = end + 1;
    return token;
  }

  Token Number() {
    const size_t begin = at_;
    const char kind = At() == '0' ? static_cast<char>(std::tolower(static_cast<unsigned char>(At(1)))) : '\0';
    if (kind == 'f') return Bits(TokenKind::kFloat32, 8);
    if (kind == 'd') return Bits(TokenKind::kFloat64, 16);
    if (kind == 'x') return Integer(2, 16);
    if (kind == 'b') return Integer(2, 2);
    size_t end = at_;
    while (end < text_.size() && IsDigit(text_[end])) ++end;
    const char after = end < text_.size() ? text_[end] : '\0';
    if (after == '.' || after == 'e' || after == 'E') return Decimal();
    return Integer(0, end - begin > 1 && kind != '\0' ? 8 : 10);
  }

  Token Bits(TokenKind kind, size_t digits) {
    const std::string number(text_.substr(at_ + 2, digits));
    if (number.size() != digits) throw ReadError(line_, "a float of too few digits");
    for (char digit : number) {
      if (!IsHex(digit)) throw ReadError(line_, "a float that is not hexadecimal: 0" + std::string(1, At(1)) + number);
    }
    Token token{kind, 0, text_.substr(at_, digits + 2), std::strtoull(number.c_str(), nullptr, 16), line_};
    at_ += digits + 2;
    return EndNumber(token);
  }

  Token Integer(size_t prefix, int base) {
    const size_t begin = at_;
    at_ += prefix;
    const size_t digits = at_;
    while (IsHex(At())) ++at_;
    const std::string number(text_.substr(digits, at_ - digits));
    char* end = nullptr;
    errno = 0;
    const uint64_t value = std::strtoull(number.c_str(), &end, base);
    if (number.empty() || number.size() > kMaxNumber || *end != '\0' || errno != 0) {
      throw ReadError(line_, "not an integer of 64 bits: " + std::string(text_.substr(begin, at_ - begin)));
    }
    if (At() == 'U') ++at_;
    return EndNumber({TokenKind::kInteger, 0, text_.substr(begin, at_ - begin), value, line_});
  }

  Token Decimal() {
    const size_t begin = at_;
    while (IsDigit(At()) || At() == '.' || At() == 'e' || At() == 'E' ||
           ((At() == '+' || At() == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))) {
      ++at_;
    }
    const std::string number(text_.substr(begin, at_ - begin));
    char* end = nullptr;
    const double value = number.size() > kMaxNumber ? 0 : std::strtod(number.c_str(), &end);
    if (end == nullptr || *end != '\0') throw ReadError(line_, "not a number: " + number.substr(0, kMaxNumber));
    return EndNumber({TokenKind::kFloat64, 0, text_.substr(begin, at_ - begin), std::bit_cast<uint64_t>(value), line_});
  }

  Token EndNumber(Token token) {
    if (IsName(At())) throw ReadError(line_, "unknown number: " + std::string(token.text) + At());
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view text) { return Lexer(text).Run(); }

}  // namespace callout::software_gpu::ptx
