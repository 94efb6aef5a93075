// SPDX-License-Identifier: Apache-2.0
//
// Arrays of the host's memory on another device of the same plugin than the one that made them, without a copy.
#pragma once

#include <memory>

#include "callout/pjrt/buffer.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// A use of an array's memory, which keeps programs from taking it over, and the array's owner from ending it. Its
/// plugin outlives it. Thread-safe, also several of one array.
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

/// `source` as an array on `device`, of `client`. Its memory is `source`'s where the plugin can share it: `source` may
/// be destroyed meanwhile, and its memory stays until no program reads the result, also if the client of `source` goes
/// first. Blocks until `source` is there. Errors: those of the program that makes it. Thread-safe.
Result<pjrt::Buffer> Borrow(const pjrt::Buffer& source, std::shared_ptr<const pjrt::Client> client,
                            PJRT_Device* device);

/// True if `source` is lent: it is then destroyed when it comes back, and not the caller's any more. Thread-safe.
bool LeaveToBorrowers(PJRT_Buffer* source);

}  // namespace callout::internal
