// SPDX-License-Identifier: Apache-2.0
//
// The inputs, outputs and calls of a program, read from its file without a plugin and without a compilation.
#pragma once

#include <vector>

#include "callout/export.h"
#include "callout/pjrt/program.h"
#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::pjrt {

/// The contents of a program as it was written. A compiler may drop or merge calls, and shards arrays:
/// LoadedExecutable::ReadSignature and its siblings describe the compiled program.
struct ProgramContents {
  std::vector<ArrayType> inputs;            ///< Whole arrays, in the order of the program's arguments.
  std::vector<ArrayType> outputs;           ///< Whole arrays, in the order of the program's results.
  std::vector<CallbackUse> callbacks;       ///< The calls of callbacks, in program order.
  std::vector<CustomCallUse> custom_calls;  ///< All other custom calls; their functions are not resolved yet.
};

/// Reads StableHLO portable artifacts, as jax.export and callout.export write them, and StableHLO's text. Symbolic
/// extents become ArrayType::kOpen. Reads no memory outside of `program`, even if its bytes are damaged. Errors:
/// InvalidArgument for damage; Unimplemented for other bytecode, for versions that this library does not know, and for
/// types that are no arrays. Thread-safe.
CALLOUT_EXPORT Result<ProgramContents> ReadContents(const Program& program);

}  // namespace callout::pjrt
