// SPDX-License-Identifier: Apache-2.0
//
// Finds the stablehlo.send and stablehlo.recv ops of a program in MLIR text. MLIR writes these ops only in the generic
// form, which is the form read here; everything around them is skipped. HostTransferCalls rewrites a program, with one
// call in the place of each callback's send and receive ops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "callout/status.h"
#include "host/programs/mlir_text.h"

namespace callout::internal {

/// A value as the text refers to it: "%3#1" is {"%3", 1}, "%3" is {"%3", 0}.
struct ValueName {
  std::string_view base;
  size_t number = 0;

  bool operator==(const ValueName&) const = default;
};

/// An op. Borrowed: valid as long as the MlirText. Positions are numbers of tokens.
struct TransferOp {
  bool is_send;
  size_t name;                     ///< The operation's name.
  size_t begin;                    ///< The first result, or the name if the results have no names.
  size_t end;                      ///< The token behind the type.
  size_t end_of_location;          ///< The token behind the location, or `end` without one.
  std::string_view packed_as;      ///< "%3" of "%3:2"; the first result's name where each has its own; "" for no names.
  std::vector<ValueName> results;  ///< One for each result; empty if they have no names.
  std::vector<size_t> operands;
  std::vector<std::string_view> operand_types;
  std::vector<std::string_view> result_types;
  std::map<std::string_view, std::string_view> attributes;
  std::optional<int64_t> channel;
  bool is_host;  ///< True for a transfer to or from the host, false between devices.
};

/// Returns the operations in the order of the text. InvalidArgument, with the line, for an op that is not in the
/// generic form.
Result<std::vector<TransferOp>> FindTransferOps(const MlirText& text);

/// Returns "stablehlo.send on channel 3 (line 12)", for errors.
std::string Describe(const MlirText& text, const TransferOp& op);

class HostTransferCalls {
 public:
  /// Borrowed: `text` outlives this object.
  explicit HostTransferCalls(const MlirText& text) : text_(text) {}

  /// Adds the ops of one callback, in the order of the text, at least one. Unimplemented, with the line, unless they
  /// are sends followed by receives in one region, each with the token of the one before.
  Status Add(std::string callback, const std::vector<const TransferOp*>& ops);

  std::string Write() const;

 private:
  struct CallSite {
    std::string callback;
    std::vector<const TransferOp*> operands;  // by channel
    std::vector<const TransferOp*> results;   // by channel
    const TransferOp* first;                  // the first op of the chain
    const TransferOp* place;                  // the op whose place the call takes
  };

  Status CheckChain(const std::vector<const TransferOp*>& ops) const;
  void Rename(const CallSite& site, const std::vector<const TransferOp*>& ops);
  std::string Name(size_t token) const;
  std::string Call(const CallSite& site) const;

  const MlirText& text_;
  std::vector<CallSite> sites_;
  std::vector<std::pair<const TransferOp*, size_t>> replaced_;  // ops, and the site that takes their place, or none
  std::map<size_t, std::string> names_;                         // tokens that name another value after the rewrite
};

}  // namespace callout::internal
