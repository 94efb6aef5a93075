// SPDX-License-Identifier: Apache-2.0
//
// The handlers of instructions, by families. Each comment names the fields of Instruction that the handlers read.
#pragma once

#include <cstdint>

#include "ptx/warp.h"

namespace callout::software_gpu::ptx {

// Arithmetic: `operation`, `to`, `second`, `in`.
void RunOperation(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// Runs an operation with a second result (`to` or `second` may be missing), or with a sign to extend.
void RunWideOperation(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunMove(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// mov.b64 {a, b}, c: `list` has `count` elements of `bytes` each.
void RunUnpack(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunPack(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// `kind` is a Special, `mode` its part.
void RunSpecial(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// `to` = the lane's local memory + `offset`.
void RunLocalAddress(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// `to` = `in[0]` + `offset`: cvta.
void RunConvertAddress(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// isspacep: tests whether the window of `in[0]` is `offset`.
void RunIsSpace(Warp& warp, const Instruction& instruction, uint32_t lanes);

// Memory: `mode` is a Place. The address is `in[0]` + `offset`, or relative to the frame's local memory without
// `in[0]`. There are `count` elements of `bytes`; if there are several, list `target` has their places.
Handler LoadHandler(int bytes, bool atomic);
Handler StoreHandler(int bytes, bool atomic);
/// `kind` is an AtomicKind.
Handler AtomicHandler(int bytes);
void RunFence(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// Copies `bytes` from the global address `in[1]` + `mode2` to the shared address `in[0]` + `offset`. Only `in[2]` of
/// them are read.
void RunCopyAsync(Warp& warp, const Instruction& instruction, uint32_t lanes);

// Control flow.
void RunNothing(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunBranch(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunBranchTable(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunCall(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunReturn(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunExit(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunTrap(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunNanosleep(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunBarrier(Warp& warp, const Instruction& instruction, uint32_t lanes);

// Operations of several lanes: `kind` is a Collective.
void RunCollective(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunActiveMask(Warp& warp, const Instruction& instruction, uint32_t lanes);

/// Calls a function of the device's runtime.
void RunBuiltin(Warp& warp, const Call& call, uint32_t lanes);

enum class Special : uint8_t {
  kThread,
  kBlockExtent,
  kBlock,
  kGridExtent,
  kLane,
  kWarp,
  kWarps,
  kLaneMaskEq,
  kLaneMaskLe,
  kLaneMaskLt,
  kLaneMaskGe,
  kLaneMaskGt,
  kTime,  ///< In nanoseconds, also for %clock.
  kTimeHigh,
  kEnvironment,
  kDynamicShared,
  kTotalShared,
  kDynamicBase,
  kConstant,  ///< `offset`
};

}  // namespace callout::software_gpu::ptx
