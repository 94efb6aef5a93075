// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/transfer_ops.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/cat.h"
#include "host/programs/mlir_text.h"

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

// Reads one operation. Each part returns false where the text is not in the generic form.
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
  // Reads the results backwards from the operation's name: `%3:2 =`, `%a, %b =`, or nothing.
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

  // Reads `<{...}>`, `{...}`, both or none.
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

  // Reads `: (types) -> type` or `-> (types)`.
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

  // Reads `#stablehlo.channel_handle<handle = 1, type = 2>`.
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
    // Without an operand list the string is an attribute's value, not an operation.
    if (text[i + 1] != "(") continue;
    std::optional<TransferOp> op = Reader(text, i).Read();
    if (!op.has_value()) {
      return InvalidArgument(Cat("callout: the program's ", text[i].substr(1, text[i].size() - 2), " in line ",
                                 text.Line(i), " is not in MLIR's generic form"));
    }
    ops.push_back(*std::move(op));
  }
  return ops;
}

std::string Describe(const MlirText& text, const TransferOp& op) {
  const std::string channel = op.channel.has_value() ? Cat(" on channel ", *op.channel) : "";
  return Cat(op.is_send ? "stablehlo.send" : "stablehlo.recv", channel, " (line ", text.Line(op.name), ")");
}

namespace {

constexpr size_t kNone = static_cast<size_t>(-1);
constexpr std::string_view kToken = "!stablehlo.token";

Status Refuse(std::string what) {
  return Unimplemented("callout: " + std::move(what) +
                       ": only the pattern of a host callback can be turned into a call, which is all sends and then "
                       "all receives, in one region, each with the token of the one before");
}

ValueName NameOf(std::string_view value) { return {BaseOf(value), NumberOf(value)}; }

std::vector<const TransferOp*> ByChannel(const std::vector<const TransferOp*>& ops, bool is_send) {
  std::vector<const TransferOp*> found;
  for (const TransferOp* op : ops) {
    if (op->is_send == is_send) found.push_back(op);
  }
  std::ranges::sort(found, {}, [](const TransferOp* op) { return *op->channel; });
  return found;
}

// Returns a row-major layout, which callbacks expect.
std::string Layout(std::string_view type) {
  const std::optional<pjrt::ArrayType> array = FromMlirType(type);
  const size_t rank = array.has_value() ? array->dims.size() : 0;  // a token has no rank
  std::string order;
  for (size_t axis = rank; axis-- > 0;) order += Cat(axis, axis == 0 ? "" : ", ");
  return rank == 0 ? "dense<> : tensor<0xindex>" : Cat("dense<[", order, "]> : tensor<", rank, "xindex>");
}

}  // namespace

Status HostTransferCalls::Add(std::string callback, const std::vector<const TransferOp*>& ops) {
  CALLOUT_RETURN_IF_ERROR(CheckChain(ops));
  CallSite site;
  site.callback = std::move(callback);
  site.operands = ByChannel(ops, true);
  site.results = ByChannel(ops, false);
  site.first = ops.front();
  site.place = site.results.empty() ? ops.back() : ops[site.operands.size()];
  Rename(site, ops);
  for (const TransferOp* op : ops) replaced_.emplace_back(op, op == site.place ? sites_.size() : kNone);
  sites_.push_back(std::move(site));
  return OkStatus();
}

Status HostTransferCalls::CheckChain(const std::vector<const TransferOp*>& ops) const {
  for (size_t i = 1; i < ops.size(); ++i) {
    const TransferOp& before = *ops[i - 1];
    const TransferOp& op = *ops[i];
    if (op.is_send && !before.is_send) {
      return Refuse(Describe(text_, op) + " comes after " + Describe(text_, before));
    }
    if (text_.EndOfRegion(op.name) != text_.EndOfRegion(before.name)) {
      return Refuse(Describe(text_, op) + " is in another region than " + Describe(text_, before));
    }
    const ValueName token = before.results.empty() ? ValueName{} : before.results.back();
    if (NameOf(text_[op.operands.back()]) != token) {
      return Refuse(Describe(text_, op) + " does not take the token of " + Describe(text_, before));
    }
    for (const size_t use : text_.Uses(token.base)) {
      const bool in_region = use > before.end && use < text_.EndOfRegion(before.name);
      if (!in_region || use == op.operands.back() || NameOf(text_[use]) != token) continue;
      return Refuse(Cat("the token of ", Describe(text_, before), " is also used in line ", text_.Line(use)));
    }
  }
  return OkStatus();
}

// Renames uses of the ops' results to results of the call, which has the names of the op whose place it takes.
void HostTransferCalls::Rename(const CallSite& site, const std::vector<const TransferOp*>& ops) {
  const auto rename = [&](const TransferOp& op, const ValueName& from, size_t number) {
    for (const size_t use : text_.Uses(from.base)) {
      if (use < op.end || use >= text_.EndOfRegion(op.name) || NameOf(text_[use]) != from) continue;
      names_[use] = std::string(site.place->packed_as) + (site.results.empty() ? "" : Cat("#", number));
    }
  };
  for (size_t i = 0; i < site.results.size(); ++i) {
    const TransferOp& op = *site.results[i];
    if (!op.results.empty()) rename(op, op.results.front(), i);
  }
  const TransferOp& last = *ops.back();
  if (!last.results.empty()) rename(last, last.results.back(), site.results.size());
}

std::string HostTransferCalls::Name(size_t token) const {
  const auto it = names_.find(token);
  return it == names_.end() ? std::string(text_[token]) : it->second;
}

std::string HostTransferCalls::Call(const CallSite& site) const {
  std::vector<std::string> operands;
  std::vector<std::string> operand_types;
  std::vector<std::string> operand_layouts;
  std::vector<std::string> result_types;
  std::vector<std::string> result_layouts;
  for (const TransferOp* op : site.operands) {
    operands.push_back(Name(op->operands.front()));
    operand_types.emplace_back(op->operand_types.front());
    operand_layouts.push_back(Layout(op->operand_types.front()));
  }
  operands.push_back(Name(site.first->operands.back()));
  operand_types.emplace_back(kToken);
  operand_layouts.push_back(Layout(kToken));
  for (const TransferOp* op : site.results) {
    result_types.emplace_back(op->result_types.front());
    result_layouts.push_back(Layout(op->result_types.front()));
  }
  result_types.emplace_back(kToken);
  result_layouts.push_back(Layout(kToken));

  std::string call(site.place->packed_as);
  if (!call.empty() && result_types.size() > 1) call += Cat(":", result_types.size());
  if (!call.empty()) call += " = ";
  call += "\"stablehlo.custom_call\"(" + Join(operands, ", ") +
          ") {call_target_name = \"callout.v1.call\", api_version = 4 : i32, has_side_effect = true, backend_config = "
          "{callback = \"" +
          site.callback + "\"}, operand_layouts = [" + Join(operand_layouts, ", ") + "], result_layouts = [" +
          Join(result_layouts, ", ") + "]";
  return call + "} : (" + Join(operand_types, ", ") + ") -> (" + Join(result_types, ", ") + ")";
}

std::string HostTransferCalls::Write() const {
  // Maps the beginning of each piece of text to its end and its replacement.
  std::map<size_t, std::pair<size_t, std::string>> pieces;
  for (const auto& [token, name] : names_) {
    pieces[text_.token(token).begin] = {text_.token(token).end, name};
  }
  for (const auto& [op, site] : replaced_) {
    const size_t begin = text_.token(op->begin).begin;
    const size_t end = text_.token((site == kNone ? op->end_of_location : op->end) - 1).end;
    for (auto it = pieces.lower_bound(begin); it != pieces.end() && it->first < end;) it = pieces.erase(it);
    pieces[begin] = {end, site == kNone ? std::string() : Call(sites_[site])};
  }
  std::string written;
  size_t at = 0;
  for (const auto& [begin, piece] : pieces) {
    written += text_.text().substr(at, begin - at);
    written += piece.second;
    at = piece.first;
  }
  written += text_.text().substr(at);
  return written;
}

}  // namespace callout::internal
