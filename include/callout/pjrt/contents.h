// SPDX-License-Identifier: Apache-2.0
//
// What a program takes, returns and calls, read from its file: without a plugin, and without compiling it.
#pragma once

#include <vector>

#include "callout/export.h"
#include "callout/pjrt/program.h"
#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::pjrt {

/// A program as it was written. A compiler may drop or merge calls, and shards arrays: what is left then is told by
/// LoadedExecutable::ReadSignature and its siblings.
struct ProgramContents {
  std::vector<ArrayType> inputs;            ///< Whole arrays, in the order of its arguments.
  std::vector<ArrayType> outputs;           ///< Whole arrays, in the order of its results.
  std::vector<CallbackUse> callbacks;       ///< The places that call out, in its order.
  std::vector<CustomCallUse> custom_calls;  ///< The others; nobody knows yet who has their functions.
};

/// Reads what jax.export and callout.export write (StableHLO portable artifacts), and StableHLO's text. Symbolic
/// extents are ArrayType::kOpen. Reads nothing but `program`, whatever is in it. Errors: InvalidArgument for damage;
/// Unimplemented for other bytecode, versions that this library does not know, and types that are no arrays.
/// Thread-safe.
CALLOUT_EXPORT Result<ProgramContents> ReadContents(const Program& program);

}  // namespace callout::pjrt
