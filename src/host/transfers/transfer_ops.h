// SPDX-License-Identifier: Apache-2.0
//
// The stablehlo.send and stablehlo.recv of a program in MLIR text. MLIR has no other form of them than the generic one,
// which is what is read here; everything around them is skipped.
// HostTransferCalls writes a program anew, with a call in the place of each callback's send and receive ops.
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

/// Borrowed: valid as long as the MlirText. Numbers are those of tokens.
struct TransferOp {
  bool is_send;
  size_t name;                     ///< Of the operation.
  size_t begin;                    ///< Its results, or its name if they have none.
  size_t end;                      ///< Behind its type.
  size_t end_of_location;          ///< Behind its location, if it has one.
  std::string_view packed_as;      ///< "%3" of "%3:2"; the first result's name where each has its own; "" for no names.
  std::vector<ValueName> results;  ///< One a result; empty if they have no names.
  std::vector<size_t> operands;
  std::vector<std::string_view> operand_types;
  std::vector<std::string_view> result_types;
  std::map<std::string_view, std::string_view> attributes;
  std::optional<int64_t> channel;
  bool is_host;  ///< From or to the host, not another device.
};

/// The operations in the order of the text. InvalidArgument with the line for one that is not in the generic form.
Result<std::vector<TransferOp>> FindTransferOps(const MlirText& text);

/// "stablehlo.send on channel 3 (line 12)", for errors.
std::string Describe(const MlirText& text, const TransferOp& op);

class HostTransferCalls {
 public:
  /// `text` outlives this.
  explicit HostTransferCalls(const MlirText& text) : text_(text) {}

  /// `ops`: those of one callback, in the order of the text; at least one. Unimplemented with the line where they are
  /// not the sends and then the receives of one region, each with the token of the one before.
  Status Add(std::string callback, const std::vector<const TransferOp*>& ops);

  std::string Write() const;

 private:
  struct CallSite {
    std::string callback;
    std::vector<const TransferOp*> operands;  // by channel
    std::vector<const TransferOp*> results;   // by channel
    const TransferOp* first;                  // of the chain
    const TransferOp* place;                  // whose place the call takes
  };

  Status CheckChain(const std::vector<const TransferOp*>& ops) const;
  void Rename(const CallSite& site, const std::vector<const TransferOp*>& ops);
  std::string Name(size_t token) const;
  std::string Call(const CallSite& site) const;

  const MlirText& text_;
  std::vector<CallSite> sites_;
  std::vector<std::pair<const TransferOp*, size_t>> replaced_;  // ops, and the site that takes their place, or none
  std::map<size_t, std::string> names_;                         // tokens that are another value now
};

}  // namespace callout::internal
