// SPDX-License-Identifier: Apache-2.0
//
// What a program says of a line that `callout.locate_nans` watches, in the name "nans:" and a payload (docs/abi.md);
// and what was found in recent runs, on all their devices: a NaN that follows from another began elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

struct RunFinding {
  int64_t run_id = 0;
  int32_t device_ordinal = 0;
  uint64_t order = 0;  ///< Of its place in the program.
  bool is_nan = false;
  bool backward = false;
  bool is_shard = false;  ///< The device has a shard of the whole; its inputs may come from others.
};

/// False if `found` follows from another finding of its run: it is NaN that comes of infinite inputs, and there was an
/// infinity in the same direction; or it is in a shard, and another device found something at an earlier place.
/// Thread-safe.
bool AddRunFinding(const RunFinding& found, bool from_infinite);

// What a program says of a line that `callout.locate_nans` watches, in the name "nans:" and a payload (docs/abi.md).

/// The operands are, in this order: at most one boolean that says which lanes live, results, inputs, and the steps of
/// the loops around, the outermost first.
struct LocatedNansText {
  bool fails = false;      ///< The program fails; else it is reported.
  bool infinities = true;  ///< Results that are infinite count, too.
  bool backward = false;
  uint64_t order = 0;                   ///< Lines are numbered as the program was traced.
  int num_extents = 0;                  ///< Of the batch, by `vmap`.
  std::vector<uint32_t> lane_masks;     ///< One an operand; bit i: it has the i-th extent in front.
  size_t num_live = 0;                  ///< 0 or 1
  std::vector<std::string> operations;  ///< One a result.
  size_t num_inputs = 0;
  size_t num_steps = 0;
  std::string place;       ///< "file.py:12 in f", or that of a function or module.
  std::string expression;  ///< The user's line.
  std::string module;      ///< The named scopes around, "" if there are none.
};

/// "1;warn;ni;forward;order;extents;masks;live;operations;inputs;steps;place;expression;module": the format's number;
/// "raise" or "warn"; "ni" if infinities count, else "n"; "forward" or "backward"; masks and operations are separated
/// by ','. Texts have "%XX" for ';', ',', '%' and control characters. InvalidArgument, with what is wrong, for anything
/// else: it may come from anywhere. Thread-safe.
CALLOUT_EXPORT Result<LocatedNansText> ParseLocatedNans(std::string_view payload);

}  // namespace callout::internal
