// SPDX-License-Identifier: Apache-2.0
#include "sinks/value_print.h"

#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/cat.h"
#include "core/encoding/percent.h"
#include "sinks/sink.h"
#include "sinks/text/numpy_text.h"
#include "sinks/text/text.h"

namespace callout::internal {
namespace {

using Kind = LayoutPiece::Kind;

constexpr std::string_view kVersion = "1";
constexpr size_t kNumFields = 5;
constexpr int64_t kMaxNumber = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxIndent = 1 << 16;
constexpr size_t kMaxDepth = 1 << 10;  // Laying out may take this many steps for each piece.
constexpr size_t kMaxPieces = 1 << 18;
constexpr size_t kMaxOwnText = 1 << 24;  // The printed text around the values, including the spaces of its breaks.

Status Malformed(const std::string& expected, std::string_view got) {
  constexpr size_t kShown = 40;
  return InvalidArgument("callout: cannot read the id_print that a program carries: expected " + expected + ", got '" +
                         std::string(got.substr(0, kShown)) + (got.size() > kShown ? "...'" : "'"));
}

// Returns no parts for an empty text.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.push_back(text);
  }
  return parts;
}

Result<int64_t> ParseNumber(std::string_view text, int64_t least, int64_t most) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most) return number;
  return Malformed(Cat("a number from ", least, " to ", most), text);
}

// Decodes "%41" and the like. Other characters must be printable ASCII, and stand for themselves.
Result<std::string> ParseText(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const std::optional<char> byte = HexByte(text.substr(i + 1));
      if (!byte) return Malformed("two hexadecimal digits after each '%'", text.substr(i));
      c = *byte;
      i += 2;
    } else if (c <= ' ' || c > '~') {
      return Malformed("printable ASCII", text.substr(i));
    }
    out += c;
  }
  return out;
}

Status ParseHead(std::string_view field, ValuePrint& print) {
  for (const std::string_view token : Split(field, ',')) {
    if (token == "d" && !print.has_device) {
      print.has_device = true;
    } else if (token.starts_with('t')) {
      CALLOUT_ASSIGN_OR_RETURN(const std::string text, ParseText(token.substr(1)));
      (print.has_device ? print.after_device : print.head) += text;
    } else {
      return Malformed("'t' and a text, or 'd' once, in the line above the value", token);
    }
  }
  return OkStatus();
}

Result<LayoutPiece> ParsePiece(std::string_view token) {
  if (token == "(") return LayoutPiece{Kind::kOpen, {}};
  if (token == ")") return LayoutPiece{Kind::kClose, {}};
  const std::string_view rest = token.substr(token.empty() ? 0 : 1);
  if (token.starts_with('t')) {
    CALLOUT_ASSIGN_OR_RETURN(std::string text, ParseText(rest));
    return LayoutPiece{Kind::kText, std::move(text)};
  }
  if (token.starts_with('l')) {
    CALLOUT_ASSIGN_OR_RETURN(const int64_t number, ParseNumber(rest, 0, kMaxNumber));
    return LayoutPiece{Kind::kLeaf, {}, static_cast<size_t>(number)};
  }
  if (token.starts_with('b')) {
    CALLOUT_ASSIGN_OR_RETURN(const int64_t indent, ParseNumber(rest, 0, kMaxIndent));
    return LayoutPiece{Kind::kBreak, {}, static_cast<size_t>(indent)};
  }
  return Malformed("'(', ')', or 't', 'l' or 'b' and what it is of", token);
}

// Checks what LayOut relies on: each group is opened and closed, and the leaves 0, 1, ... occur once each.
Status CheckLayout(std::string_view field, ValuePrint& print) {
  std::vector<bool> seen;
  size_t depth = 0;
  size_t own_text = 0;
  for (const LayoutPiece& piece : print.layout) {
    own_text += piece.text.size() + (piece.kind == Kind::kBreak ? piece.number : 0);
  }
  if (print.layout.size() > kMaxPieces || own_text > kMaxOwnText) {
    return Malformed(Cat("at most ", kMaxPieces, " pieces and ", kMaxOwnText, " characters around the values"), field);
  }
  for (const LayoutPiece& piece : print.layout) {
    if (piece.kind == Kind::kOpen && ++depth > kMaxDepth) {
      return Malformed(Cat("at most ", kMaxDepth, " groups inside each other"), field);
    }
    if (piece.kind == Kind::kClose && depth-- == 0) return Malformed("a '(' for each ')'", field);
    if (piece.kind == Kind::kLeaf) ++print.num_leaves;
  }
  if (depth > 0) return Malformed("a ')' for each '('", field);
  seen.resize(print.num_leaves);
  for (const LayoutPiece& piece : print.layout) {
    if (piece.kind != Kind::kLeaf) continue;
    if (piece.number >= seen.size() || seen[piece.number]) {
      return Malformed(Cat("the leaves 0 to ", seen.size() - 1, " once each"), field);
    }
    seen[piece.number] = true;
  }
  return OkStatus();
}

}  // namespace

Result<ValuePrint> ParseValuePrint(std::string_view payload) {
  const std::vector<std::string_view> fields = Split(payload, ';');
  if (fields.empty() || fields[0] != kVersion) {
    return Malformed("format " + std::string(kVersion) + ", which is what this version of Callout reads", payload);
  }
  if (fields.size() != kNumFields) {
    return Malformed(Cat(kNumFields, " fields separated by ';'"), payload);
  }
  ValuePrint print;
  CALLOUT_ASSIGN_OR_RETURN(print.threshold, ParseNumber(fields[1], -1, kMaxNumber));
  CALLOUT_ASSIGN_OR_RETURN(print.exponents_from, ParseNumber(fields[2], 1, kMaxNumber));
  CALLOUT_RETURN_IF_ERROR(ParseHead(fields[3], print));
  for (const std::string_view token : Split(fields[4], ',')) {
    CALLOUT_ASSIGN_OR_RETURN(LayoutPiece piece, ParsePiece(token));
    print.layout.push_back(std::move(piece));
  }
  CALLOUT_RETURN_IF_ERROR(CheckLayout(fields[4], print));
  return print;
}

namespace {

class ValuePrintSink final : public TextSink {
 public:
  ValuePrintSink(std::string label, ValuePrint print, int fd)
      : TextSink(std::move(label), TextOutput::Of(fd)), print_(std::move(print)) {}

 private:
  Status Format(const Record& record, std::string& lines) override {
    if (record.buffers.size() != print_.num_leaves) {
      return InvalidArgument(Cat("callout: an id_print of ", print_.num_leaves, " arrays got ", record.buffers.size()));
    }
    std::vector<std::string> leaves(print_.num_leaves);
    for (size_t i = 0; i < leaves.size(); ++i) CALLOUT_RETURN_IF_ERROR(AppendLeaf(record.buffers[i], leaves[i]));
    lines += print_.head;
    if (print_.has_device) lines.append(Cat("cpu:", record.device_ordinal, print_.after_device));
    if (print_.has_head()) lines += '\n';
    lines.append(LayOut(print_.layout, leaves)).append("\n");
    return OkStatus();
  }

  Status AppendLeaf(const callout_buffer& buffer, std::string& out) const {
    const NumpyTextOptions options = {print_.threshold, static_cast<float>(print_.exponents_from)};
    return AppendNumpyText(buffer, options, out) ? OkStatus() : AppendArray(buffer, TextStyle::kPrint, out);
  }

  const ValuePrint print_;
};

}  // namespace

std::shared_ptr<Callback> MakeValuePrintSink(std::string label, ValuePrint print, int fd) {
  return std::make_shared<ValuePrintSink>(std::move(label), std::move(print), fd);
}

Result<std::shared_ptr<Callback>> MakeValuePrint(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(ValuePrint print, ParseValuePrint(payload));
  return MakeValuePrintSink(label, std::move(print), /*fd=*/-1);
}

}  // namespace callout::internal
