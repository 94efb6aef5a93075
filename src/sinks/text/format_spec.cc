// SPDX-License-Identifier: Apache-2.0
#include "sinks/text/format_spec.h"

#include <charconv>

#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

constexpr int kMost = 4096;  // of widths and digits: nobody reads more, and a record must not fill the memory

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
    // Zeros go between sign and digits, but text and given alignments keep theirs.
    if (zero_ && spec_.align == 0 && spec_.type != 's') spec_.align = '=';
    CALLOUT_RETURN_IF_ERROR(CheckGrouping());
    return spec_;
  }

 private:
  // True if a fill was given.
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
      return InvalidArgument("Too many decimal digits in format string: at most " + std::to_string(kMost));
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

}  // namespace callout::internal
