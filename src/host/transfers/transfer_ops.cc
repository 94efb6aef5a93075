// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/transfer_ops.h"

#include <charconv>

namespace callout::internal {
namespace {

using Kind = MlirToken::Kind;

constexpr std::string_view kSend = "\"stablehlo.send\"";
constexpr std::string_view kRecv = "\"stablehlo.recv\"";
constexpr int64_t kDeviceToHost = 2;
constexpr int64_t kHostToDevice = 3;

std::optional<int64_t> ToNumber(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// Reads one operation. Each part returns false where the text is not of the generic form.
class Reader {
 public:
  Reader(const MlirText& text, size_t name) : text_(text), at_(name + 1) {
    op_.name = name;
    op_.is_send = text[name] == kSend;
  }

  std::optional<TransferOp> Read() {
    if (!ReadResults() || !ReadOperands() || !ReadAttributes() || !ReadTypes()) return std::nullopt;
    op_.end = op_.end_of_location = at_;
    if (text_[at_] == "loc" && text_[at_ + 1] == "(") op_.end_of_location = text_.Behind(at_ + 1);
    ReadChannel();
    if (op_.operands.size() != op_.operand_types.size()) return std::nullopt;
    if (!op_.results.empty() && op_.results.size() != op_.result_types.size()) return std::nullopt;
    return op_;
  }

 private:
  // Backwards from the name: `%3:2 =`, `%a, %b =`, or nothing.
  bool ReadResults() {
    size_t i = op_.name;
    op_.begin = op_.name;
    if (i == 0 || text_[i - 1] != "=") return true;
    for (--i; i > 0;) {
      size_t count = 1;
      if (i >= 3 && text_.Is(i - 1, Kind::kWord) && text_[i - 2] == ":") {
        const auto number = ToNumber(text_[i - 1]);
        if (!number.has_value() || *number < 1 || *number > 64) return false;
        count = static_cast<size_t>(*number);
        i -= 2;
      }
      if (!text_.Is(i - 1, Kind::kValue)) return false;
      --i;
      for (size_t k = count; k-- > 0;) op_.results.insert(op_.results.begin(), {text_[i], k});
      if (i == 0 || text_[i - 1] != ",") break;
      --i;
    }
    op_.begin = i;
    op_.packed_as = text_[i];
    return !op_.results.empty();
  }

  bool ReadOperands() {
    if (text_[at_++] != "(") return false;
    while (text_.Is(at_, Kind::kValue)) {
      op_.operands.push_back(at_++);
      if (text_[at_] == ",") ++at_;
    }
    return text_[at_++] == ")";
  }

  // `<{...}>`, `{...}`, both or none.
  bool ReadAttributes() {
    if (text_[at_] == "<" && text_[at_ + 1] == "{") {
      ++at_;
      if (!ReadDictionary() || text_[at_++] != ">") return false;
    }
    return text_[at_] != "{" || ReadDictionary();
  }

  bool ReadDictionary() {
    const size_t end = text_.Behind(at_) - 1;
    for (++at_; at_ < end;) {
      std::string_view key = text_[at_++];
      if (key.starts_with('"')) key = key.substr(1, key.size() - 2);
      if (text_[at_] != "=") {  // a unit attribute
        op_.attributes[key] = "unit";
      } else {
        const size_t begin = ++at_;
        while (at_ < end && text_[at_] != ",") at_ = IsOpen(text_[at_]) ? text_.Behind(at_) : at_ + 1;
        op_.attributes[key] = text_.Slice(begin, at_);
        if (key == "channel_handle") channel_at_ = begin;
      }
      if (at_ < end && text_[at_++] != ",") return false;
    }
    at_ = end + 1;
    return at_ <= text_.size();
  }

  static bool IsOpen(std::string_view one) { return one == "(" || one == "[" || one == "{" || one == "<"; }

  // `: (types) -> type` or `-> (types)`.
  bool ReadTypes() {
    if (text_[at_++] != ":" || !ReadTypeList(op_.operand_types) || text_[at_++] != "->") return false;
    return text_[at_] == "(" ? ReadTypeList(op_.result_types) : ReadType(op_.result_types);
  }

  bool ReadTypeList(std::vector<std::string_view>& types) {
    if (text_[at_++] != "(") return false;
    while (at_ < text_.size() && text_[at_] != ")") {
      if (!ReadType(types)) return false;
      if (text_[at_] == ",") ++at_;
    }
    return text_[at_++] == ")";
  }

  bool ReadType(std::vector<std::string_view>& types) {
    const size_t begin = at_;
    if (text_[at_] == "!") ++at_;
    if (!text_.Is(at_, Kind::kWord)) return false;
    if (text_[++at_] == "<") at_ = text_.Behind(at_);
    types.push_back(text_.Slice(begin, at_));
    return true;
  }

  // `#stablehlo.channel_handle<handle = 1, type = 2>`.
  void ReadChannel() {
    std::optional<int64_t> type;
    for (size_t i = channel_at_; channel_at_ != 0 && i < op_.end && text_[i] != ">"; ++i) {
      if (text_[i + 1] != "=") continue;
      if (text_[i] == "handle") op_.channel = ToNumber(text_[i + 2]);
      if (text_[i] == "type") type = ToNumber(text_[i + 2]);
    }
    const auto flag = op_.attributes.find("is_host_transfer");
    op_.is_host = flag != op_.attributes.end() && (flag->second == "true" || flag->second.starts_with("true ")) &&
                  type == (op_.is_send ? kDeviceToHost : kHostToDevice);
  }

  const MlirText& text_;
  size_t at_;
  size_t channel_at_ = 0;
  TransferOp op_ = {};
};

}  // namespace

Result<std::vector<TransferOp>> FindTransferOps(const MlirText& text) {
  std::vector<TransferOp> ops;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!text.Is(i, Kind::kString) || (text[i] != kSend && text[i] != kRecv)) continue;
    // As an attribute's value it is no operation.
    if (text[i + 1] != "(") continue;
    std::optional<TransferOp> op = Reader(text, i).Read();
    if (!op.has_value()) {
      return InvalidArgument("callout: the program's " + std::string(text[i].substr(1, text[i].size() - 2)) +
                             " in line " + std::to_string(text.Line(i)) + " is not in MLIR's generic form");
    }
    ops.push_back(*std::move(op));
  }
  return ops;
}

std::string Describe(const MlirText& text, const TransferOp& op) {
  const std::string channel = op.channel.has_value() ? " on channel " + std::to_string(*op.channel) : "";
  return (op.is_send ? "stablehlo.send" : "stablehlo.recv") + channel + " (line " + std::to_string(text.Line(op.name)) +
         ")";
}

}  // namespace callout::internal
