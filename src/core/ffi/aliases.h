// SPDX-License-Identifier: Apache-2.0
//
// Results that a function updates in place: each holds an operand's value when the function is called.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// The pairs of operands and results of a call site. XLA may give both different memory (another operation needs the
/// value later, or the partitioner rewrote the call); then the operand is copied.
class Aliases {
 public:
  Aliases() = default;
  /// Decodes the attribute `aliases`: operand, result, operand, ...
  explicit Aliases(std::span<const int64_t> pairs);
  /// Decodes the attribute `returned`: the i-th result is the operand `operands[i]`.
  static Aliases InTurn(std::span<const int64_t> operands);

  bool empty() const { return pairs_.empty(); }

  /// Returns InvalidArgument if a pair does not exist in `call`, or its operand and its result have different sizes.
  Status Check(const callout_call& call) const;

  /// Copies each operand that a result stands for into that result. Requires a successful Check of `call`. Thread-safe.
  void Apply(const callout_call& call) const;

  /// Calls `copy(from, to)` for each pair whose buffers are different memory. Requires a successful Check of `call`.
  template <typename Copy>
  void ForEach(const callout_call& call, Copy&& copy) const {
    for (const Pair& pair : pairs_) {
      const callout_buffer& from = call.args[pair.operand];
      const callout_buffer& to = call.results[pair.result];
      if (from.data != to.data && from.size_bytes > 0) copy(from, to);
    }
  }

 private:
  struct Pair {
    int64_t operand;
    int64_t result;
  };

  const char* attribute_ = "aliases";
  std::vector<Pair> pairs_;
};

}  // namespace callout::internal
