// SPDX-License-Identifier: Apache-2.0
//
// Results that a function updates in place: they hold an operand's value when it is called.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// The pairs of a call site. Where XLA did not give both the same memory (the value is needed later, or its partitioner
/// wrote the call anew), the operand is copied.
class Aliases {
 public:
  Aliases() = default;
  /// Attribute `aliases`: operand, result, operand, ...
  explicit Aliases(std::span<const int64_t> pairs);
  /// Attribute `returned`: the i-th result is the operand `operands[i]`.
  static Aliases InTurn(std::span<const int64_t> operands);

  bool empty() const { return pairs_.empty(); }

  /// InvalidArgument if a pair does not exist, or its operand and its result are of different sizes.
  Status Check(const callout_call& call) const;

  /// Fills the results. `call` was checked. Thread-safe.
  void Apply(const callout_call& call) const;

  /// Calls `copy(from, to)` for each pair that is not in one place already. `call` was checked.
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
