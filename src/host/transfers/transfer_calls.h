// SPDX-License-Identifier: Apache-2.0
//
// Writes a program anew, with a call in the place of each callback's send and receive ops.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "callout/status.h"
#include "host/programs/mlir_text.h"
#include "host/transfers/transfer_ops.h"

namespace callout::internal {

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
