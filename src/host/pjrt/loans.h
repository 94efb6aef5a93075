// SPDX-License-Identifier: Apache-2.0
//
// Lends arrays in host memory, without a copy, to other devices of the plugin that made them.
#pragma once

#include <memory>

#include "callout/pjrt/buffer.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// A use of an array's memory. It prevents programs from taking the memory over, and the array's owner from freeing it.
/// The plugin outlives the loan. Thread-safe; one array may have several loans.
class Loan {
 public:
  /// Errors: the plugin's own.
  static Result<std::unique_ptr<Loan>> Take(const PjrtApi& api, PJRT_Buffer* source);
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan();

  /// Borrowed: valid as long as the loan.
  Result<void*> Memory() const;

 private:
  Loan(const PjrtApi& api, PJRT_Buffer* source) : api_(api), source_(source) {}
  bool EndsOrphan() const;

  const PjrtApi& api_;
  PJRT_Buffer* const source_;
};

/// Returns `source` as an array on `device`, of `client`. Shares `source`'s memory where the plugin can: `source` may
/// then be destroyed, and its memory stays until no program reads the result, even if the client of `source` is
/// destroyed first. Blocks until `source` is ready. Errors: those of the program that makes `source`. Thread-safe.
Result<pjrt::Buffer> Borrow(const pjrt::Buffer& source, std::shared_ptr<const pjrt::Client> client,
                            PJRT_Device* device);

/// True if `source` is lent. Its last loan then destroys it, and the caller must not. Thread-safe.
bool LeaveToBorrowers(PJRT_Buffer* source);

}  // namespace callout::internal
