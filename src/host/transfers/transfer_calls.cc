// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/transfer_calls.h"

#include <algorithm>
#include <optional>

#include "host/programs/mlir_type.h"

namespace callout::internal {
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

// Row-major, as callbacks expect it.
std::string Layout(std::string_view type) {
  const std::optional<pjrt::ArrayType> array = FromMlirType(type);
  const size_t rank = array.has_value() ? array->dims.size() : 0;  // a token has none
  std::string order;
  for (size_t axis = rank; axis-- > 0;) order += std::to_string(axis) + (axis == 0 ? "" : ", ");
  return rank == 0 ? "dense<> : tensor<0xindex>"
                   : "dense<[" + order + "]> : tensor<" + std::to_string(rank) + "xindex>";
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
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
      return Refuse("the token of " + Describe(text_, before) + " is also used in line " +
                    std::to_string(text_.Line(use)));
    }
  }
  return OkStatus();
}

// Results of the ops become results of the call, which has the names of the op whose place it takes.
void HostTransferCalls::Rename(const CallSite& site, const std::vector<const TransferOp*>& ops) {
  const auto rename = [&](const TransferOp& op, const ValueName& from, size_t number) {
    for (const size_t use : text_.Uses(from.base)) {
      if (use < op.end || use >= text_.EndOfRegion(op.name) || NameOf(text_[use]) != from) continue;
      names_[use] = std::string(site.place->packed_as) + (site.results.empty() ? "" : "#" + std::to_string(number));
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
  if (!call.empty() && result_types.size() > 1) call += ":" + std::to_string(result_types.size());
  if (!call.empty()) call += " = ";
  call += "\"stablehlo.custom_call\"(" + Joined(operands) +
          ") {call_target_name = \"callout.v1.call\", api_version = 4 : i32, has_side_effect = true, backend_config = "
          "{callback = \"" +
          site.callback + "\"}, operand_layouts = [" + Joined(operand_layouts) + "], result_layouts = [" +
          Joined(result_layouts) + "]";
  return call + "} : (" + Joined(operand_types) + ") -> (" + Joined(result_types) + ")";
}

std::string HostTransferCalls::Write() const {
  // Pieces of the text, by where they begin, and what they become.
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
