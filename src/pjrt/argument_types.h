// SPDX-License-Identifier: Apache-2.0
//
// The types that a program takes, for a look at what it is given: plugins compare sizes in bytes only.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "callout/pjrt/executable.h"
#include "pjrt/pjrt_abi.h"

namespace callout::internal {

/// Read from the program when it first runs. Thread-safe.
class ArgumentTypes {
 public:
  /// InvalidArgument for another number of arguments, and for one of another type. Ok where `executable` does not tell.
  Status Check(std::span<const std::vector<const pjrt::Buffer*>> arguments, const pjrt::LoadedExecutable& executable,
               const PjrtApi& api);

 private:
  std::once_flag read_;
  bool known_ = false;
  std::vector<pjrt::ArrayType> types_;
};

}  // namespace callout::internal
