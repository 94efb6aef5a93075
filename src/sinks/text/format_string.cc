// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/format_string.h"

#include <algorithm>
#include <utility>

#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// "%H:%M", but not ".1%".
bool IsTimeFormat(std::string_view spec) {
  for (size_t i = 1; i < spec.size(); ++i) {
    if (spec[i - 1] == '%' && IsLetter(spec[i])) return true;
  }
  return false;
}

class FormatParser {
 public:
  explicit FormatParser(std::string_view format) : format_(format) {}

  Result<std::vector<FormatPiece>> Parse() {
    while (at_ < format_.size()) {
      const char c = format_[at_];
      if (c != '{' && c != '}') {
        piece_.text += c;
        ++at_;
      } else if (at_ + 1 < format_.size() && format_[at_ + 1] == c) {
        piece_.text += c;
        at_ += 2;
      } else if (c == '}') {
        return Error(at_, "a single '}'; write '}}' to print one");
      } else {
        CALLOUT_RETURN_IF_ERROR(ParseField());
      }
    }
    pieces_.push_back(std::move(piece_));
    return std::move(pieces_);
  }

 private:
  Status Error(size_t position, const std::string& what) const { return FormatError(format_, position, what); }

  // At a '{'.
  Status ParseField() {
    FormatField field;
    field.position = at_++;
    CALLOUT_RETURN_IF_ERROR(ParseName(field));
    if (at_ < format_.size() && format_[at_] == '!') {
      const std::string_view conversion = format_.substr(at_, 2);
      if (conversion != "!s") return Error(at_, "only the conversion '!s' is known");
      field.as_text = true;
      at_ += 2;
    }
    if (at_ < format_.size() && format_[at_] == ':') CALLOUT_RETURN_IF_ERROR(ParseSpec(field));
    if (at_ == format_.size()) return Error(field.position, "a '{' without its '}'; write '{{' to print one");
    if (format_[at_] != '}') return Error(at_, "expected ':' or '}' behind a conversion");
    ++at_;
    piece_.field = std::move(field);
    pieces_.push_back(std::exchange(piece_, {}));
    return OkStatus();
  }

  Status ParseName(FormatField& field) {
    bool in_brackets = false;
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (in_brackets && c == ']') {
        in_brackets = false;
      } else if (!in_brackets && c == '[') {
        in_brackets = true;
        field.name += '.';
      } else if (!in_brackets && (c == '}' || c == ':' || c == '!')) {
        break;
      } else if (c == '{') {
        return Error(at_, "a '{' inside of a field");
      } else {
        field.name += c;
      }
    }
    if (in_brackets) return Error(field.position, "a '[' without its ']'");
    if (field.name.empty()) {
      field.name = std::to_string(next_number_++);
      is_automatic_ = true;
    } else if (IsNumber(field.name)) {
      is_manual_ = true;
    }
    if (is_automatic_ && is_manual_) return Error(field.position, "'{}' and numbered fields do not go together");
    return OkStatus();
  }

  // At a ':'.
  Status ParseSpec(FormatField& field) {
    const size_t begin = ++at_;
    at_ = std::min(format_.find_first_of("{}", begin), format_.size());
    if (at_ < format_.size() && format_[at_] == '{')
      return Error(at_, "fields inside of a specification are not known");
    field.spec_text = format_.substr(begin, at_ - begin);
    field.is_time = IsTimeFormat(field.spec_text);
    if (field.is_time) return OkStatus();
    auto spec = ParseFormatSpec(field.spec_text);
    if (!spec.ok()) return Error(begin, std::string(spec.status().message()) + " '" + field.spec_text + "'");
    field.spec = std::move(spec).value();
    return OkStatus();
  }

  const std::string_view format_;
  size_t at_ = 0;
  std::vector<FormatPiece> pieces_;
  FormatPiece piece_;
  int next_number_ = 0;
  bool is_automatic_ = false;
  bool is_manual_ = false;
};

}  // namespace

Status FormatError(std::string_view format, size_t position, const std::string& what) {
  return InvalidArgument("callout: cannot print with the format '" + std::string(format) + "', at character " +
                         std::to_string(CodePoints(format.substr(0, position))) + ": " + what);
}

Result<std::vector<FormatPiece>> ParseFormatString(std::string_view format) { return FormatParser(format).Parse(); }

}  // namespace callout::internal
