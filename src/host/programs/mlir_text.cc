// SPDX-License-Identifier: Apache-2.0
#include "host/programs/mlir_text.h"

#include <algorithm>
#include <charconv>

#include "core/base/cat.h"
#include "core/frame/elements.h"

namespace callout::internal {
std::optional<pjrt::ArrayType> FromMlirType(std::string_view text) {
  constexpr std::string_view kHead = "tensor<";
  if (!text.starts_with(kHead) || !text.ends_with('>')) return std::nullopt;
  text = text.substr(kHead.size(), text.size() - kHead.size() - 1);
  pjrt::ArrayType type{DType::kInvalid, {}};
  while (!text.empty() && (text.front() == '?' || (text.front() >= '0' && text.front() <= '9'))) {
    if (text.starts_with("?x")) {
      type.dims.push_back(pjrt::ArrayType::kOpen);
      text.remove_prefix(2);
      continue;
    }
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || end == text.data() + text.size() || *end != 'x') return std::nullopt;
    type.dims.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  }
  for (const DTypeRow& row : kDTypeRows) {
    if (row.mlir_name.empty() || row.mlir_name != text) continue;
    type.dtype = row.dtype;
    return type;
  }
  return std::nullopt;
}

namespace {

using Kind = MlirToken::Kind;

bool IsWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '.';
}

// True for a character of a value's name ("%arg0", "%while-1"). A minus before '>' belongs to an arrow instead.
bool IsName(std::string_view text, size_t at) {
  return IsWord(text[at]) || (text[at] == '-' && at + 1 < text.size() && text[at + 1] != '>');
}

size_t EndOfString(std::string_view text, size_t begin) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return 0;
}

size_t EndOfValue(std::string_view text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && IsName(text, i)) ++i;
  if (i + 1 >= text.size() || text[i] != '#' || text[i + 1] < '0' || text[i + 1] > '9') return i;
  for (++i; i < text.size() && text[i] >= '0' && text[i] <= '9';) ++i;
  return i;
}

size_t LineAt(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

Status Unfinished(std::string_view text, size_t at, std::string_view what) {
  return InvalidArgument(
      Cat("callout: the program's MLIR text has ", what, " in line ", LineAt(text, at), " without its counterpart"));
}

}  // namespace

Result<MlirText> MlirText::Scan(std::string_view text) {
  MlirText scanned;
  scanned.text_ = text;
  CALLOUT_RETURN_IF_ERROR(scanned.ReadTokens());
  CALLOUT_RETURN_IF_ERROR(scanned.MatchBraces());
  return scanned;
}

Status MlirText::ReadTokens() {
  for (size_t i = 0; i < text_.size();) {
    const char c = text_[i];
    size_t end = i + 1;
    Kind kind = Kind::kSymbol;
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++i;
      continue;
    }
    if (c == '/' && end < text_.size() && text_[end] == '/') {
      i = std::min(text_.find('\n', i), text_.size());
      continue;
    }
    if (c == '"') {
      kind = Kind::kString;
      end = EndOfString(text_, i);
      if (end == 0) return Unfinished(text_, i, "a '\"'");
    } else if (c == '%') {
      kind = Kind::kValue;
      end = EndOfValue(text_, i);
      uses_[BaseOf(text_.substr(i, end - i))].push_back(tokens_.size());
    } else if (IsWord(c)) {
      kind = Kind::kWord;
      while (end < text_.size() && IsWord(text_[end])) ++end;
    } else if (c == '-' && end < text_.size() && text_[end] == '>') {
      ++end;
    }
    tokens_.push_back({kind, i, end});
    i = end;
  }
  return OkStatus();
}

Status MlirText::MatchBraces() {
  region_end_.assign(size(), size());
  std::vector<size_t> open;
  for (size_t i = 0; i < size(); ++i) {
    if ((*this)[i] == "{") open.push_back(i);
    if ((*this)[i] != "}") continue;
    if (open.empty()) return Unfinished(text_, token(i).begin, "a '}'");
    region_end_[open.back()] = i;
    open.pop_back();
  }
  if (!open.empty()) return Unfinished(text_, token(open.back()).begin, "a '{'");
  // Goes from the outside in: a token's region ends where the region of the surrounding brace ends.
  std::vector<size_t> ends = {size()};
  for (size_t i = 0; i < size(); ++i) {
    if (ends.back() == i) ends.pop_back();
    const size_t own = region_end_[i];
    region_end_[i] = ends.back();
    if ((*this)[i] == "{") ends.push_back(own);
  }
  return OkStatus();
}

std::string_view MlirText::operator[](size_t i) const {
  if (i >= size()) return {};
  return text_.substr(tokens_[i].begin, tokens_[i].end - tokens_[i].begin);
}

std::string_view MlirText::Slice(size_t begin, size_t end) const {
  if (begin >= end || begin >= size()) return {};
  return text_.substr(tokens_[begin].begin, tokens_[end - 1].end - tokens_[begin].begin);
}

size_t MlirText::Behind(size_t i) const {
  size_t depth = 0;
  for (; i < size(); ++i) {
    const std::string_view one = (*this)[i];
    if (one == "(" || one == "[" || one == "{" || one == "<") ++depth;
    if ((one == ")" || one == "]" || one == "}" || one == ">") && --depth == 0) return i + 1;
  }
  return size();
}

size_t MlirText::EndOfRegion(size_t i) const { return region_end_[i]; }

size_t MlirText::Line(size_t i) const { return LineAt(text_, tokens_[i].begin); }

const std::vector<size_t>& MlirText::Uses(std::string_view base) const {
  static const std::vector<size_t> kNone;
  const auto it = uses_.find(base);
  return it == uses_.end() ? kNone : it->second;
}

std::string_view BaseOf(std::string_view value) { return value.substr(0, value.find('#')); }

size_t NumberOf(std::string_view value) {
  size_t number = 0;
  if (const size_t mark = value.find('#'); mark != std::string_view::npos) {
    std::from_chars(value.data() + mark + 1, value.data() + value.size(), number);
  }
  return number;
}

}  // namespace callout::internal
