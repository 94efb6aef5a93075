// SPDX-License-Identifier: Apache-2.0
//
// Attribute `threaded`: the first operand and the first result are a token of `callout.threaded`, a u32[] that makes
// the order of calls a data dependence. It is no part of the value.
#pragma once

#include <cstdint>
#include <span>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// Where the token is, and where it goes: u32s of the host or of a device.
struct ThreadToken {
  const void* from = nullptr;
  void* to = nullptr;

  /// Copies the token in the host's memory.
  void CopyOnHost() const { __builtin_memcpy(to, from, sizeof(uint32_t)); }
};

/// Takes the token off the operands and off the results. InvalidArgument where there is none.
Result<ThreadToken> TakeToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

/// TakeToken, and copies it on the host.
Status PassToken(std::span<const callout_buffer>* args, std::span<const callout_buffer>* results);

}  // namespace callout::internal
