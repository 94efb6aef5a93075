// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/format_string.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/cat.h"
#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

// The limit of widths and digits: nobody reads more, and a record must not fill the memory.
constexpr int kMost = 4096;

bool IsAlign(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

class SpecParser {
 public:
  explicit SpecParser(std::string_view text) : rest_(text) {}

  Result<FormatSpec> Parse() {
    const bool has_fill = ParseAlign();
    if (Next("+- ")) spec_.sign = taken_;
    spec_.no_negative_zero = Next("z");
    spec_.alternate = Next("#");
    if (!has_fill && Next("0")) {
      spec_.fill = "0";
      zero_ = true;
    }
    CALLOUT_RETURN_IF_ERROR(ParseCount(spec_.width));
    if (Next(",_")) {
      spec_.grouping = taken_;
      if (Next(",_")) {
        return InvalidArgument(taken_ == spec_.grouping ? std::string("Cannot specify '") + taken_ + "' twice."
                                                        : "Cannot specify both ',' and '_'.");
      }
    }
    if (Next(".")) {
      spec_.precision = -1;
      CALLOUT_RETURN_IF_ERROR(ParseCount(spec_.precision));
      if (spec_.precision < 0) return InvalidArgument("Format specifier missing precision");
    }
    if (rest_.size() > 1) return InvalidArgument("Invalid format specifier");
    if (!rest_.empty()) spec_.type = rest_[0];
    // Zeros are inserted between sign and digits, except for text and explicit alignments.
    if (zero_ && spec_.align == 0 && spec_.type != 's') spec_.align = '=';
    CALLOUT_RETURN_IF_ERROR(CheckGrouping());
    return spec_;
  }

 private:
  // Returns true if there is a fill.
  bool ParseAlign() {
    const size_t first = BytesOf(rest_, 1);
    if (first > 0 && first < rest_.size() && IsAlign(rest_[first])) {
      spec_.fill = rest_.substr(0, first);
      spec_.align = rest_[first];
      rest_.remove_prefix(first + 1);
      return true;
    }
    if (Next("<>=^")) spec_.align = taken_;
    return false;
  }

  bool Next(std::string_view any) {
    if (rest_.empty() || any.find(rest_[0]) == std::string_view::npos) return false;
    taken_ = rest_[0];
    rest_.remove_prefix(1);
    return true;
  }

  Status ParseCount(int& count) {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (end == rest_.data() || rest_[0] == '-') return OkStatus();
    if (error != std::errc() || value > kMost) {
      return InvalidArgument(Cat("Too many decimal digits in format string: at most ", kMost));
    }
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    count = value;
    return OkStatus();
  }

  Status CheckGrouping() const {
    if (spec_.grouping == 0) return OkStatus();
    const std::string_view allowed = spec_.grouping == ',' ? "deEfFgG%" : "deEfFgG%boxX";
    if (spec_.type == 0 || allowed.find(spec_.type) != std::string_view::npos) return OkStatus();
    return InvalidArgument(std::string("Cannot specify '") + spec_.grouping + "' with '" + spec_.type + "'.");
  }

  std::string_view rest_;
  FormatSpec spec_;
  bool zero_ = false;
  char taken_ = 0;
};

const char* TypeName(FormatKind kind) {
  switch (kind) {
    case FormatKind::kBool:
      return "bool";
    case FormatKind::kInteger:
      return "int";
    case FormatKind::kFloat:
      return "float";
    case FormatKind::kComplex:
      return "complex";
    case FormatKind::kText:
      break;
  }
  return "str";
}

Status UnknownType(const FormatSpec& spec, FormatKind kind) {
  return InvalidArgument(std::string("Unknown format code '") + spec.type + "' for object of type '" + TypeName(kind) +
                         "'");
}

Status CheckInteger(const FormatSpec& spec) {
  if (spec.precision >= 0) return InvalidArgument("Precision not allowed in integer format specifier");
  if (spec.no_negative_zero) {
    return InvalidArgument("Negative zero coercion (z) not allowed in format specifier with integer format code");
  }
  if (spec.type != 'c') return OkStatus();
  if (spec.sign != 0) return InvalidArgument("Sign not allowed with integer format specifier 'c'");
  if (spec.alternate) {
    return InvalidArgument("Alternate form (#) not allowed with integer format specifier 'c'");
  }
  return OkStatus();
}

Status CheckText(const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') return UnknownType(spec, FormatKind::kText);
  if (spec.sign != 0) return InvalidArgument("Sign not allowed in string format specifier");
  if (spec.no_negative_zero)
    return InvalidArgument("Negative zero coercion (z) not allowed in string format specifier");
  if (spec.alternate) return InvalidArgument("Alternate form (#) not allowed in string format specifier");
  if (spec.grouping != 0) return InvalidArgument(std::string("Cannot specify '") + spec.grouping + "' with 's'.");
  if (spec.align == '=' && spec.fill != "0") {
    return InvalidArgument("'=' alignment not allowed in string format specifier");
  }
  return OkStatus();
}

Status CheckComplex(const FormatSpec& spec) {
  if (spec.fill == "0") return InvalidArgument("Zero padding is not allowed in complex format specifier");
  if (spec.align == '=') return InvalidArgument("'=' alignment flag is not allowed in complex format specifier");
  return OkStatus();
}

}  // namespace

Result<FormatSpec> ParseFormatSpec(std::string_view text) { return SpecParser(text).Parse(); }

Status CheckFormatSpec(const FormatSpec& spec, FormatKind kind) {
  if (kind == FormatKind::kText) return CheckText(spec);
  const auto is_of = [&](std::string_view types) {
    return spec.type == 0 || types.find(spec.type) != std::string_view::npos;
  };
  if (kind == FormatKind::kComplex) return is_of("eEfFgGn") ? CheckComplex(spec) : UnknownType(spec, kind);
  const bool is_whole = kind == FormatKind::kBool || kind == FormatKind::kInteger;
  if (is_whole && is_of("bcdoxXn")) return CheckInteger(spec);
  return is_of("eEfFgGn%") ? OkStatus() : UnknownType(spec, kind);
}

namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns true for "%H:%M", and false for ".1%".
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

  // Parses a field; the next character is a '{'.
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

  // Parses a specification; the next character is a ':'.
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
  return InvalidArgument(Cat("callout: cannot print with the format '", format, "', at character ",
                             CodePoints(format.substr(0, position)), ": ", what));
}

Result<std::vector<FormatPiece>> ParseFormatString(std::string_view format) { return FormatParser(format).Parse(); }

}  // namespace callout::internal
