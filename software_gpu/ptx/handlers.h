// SPDX-License-Identifier: Apache-2.0
//
// What instructions do, by families. Each says which fields of Instruction it reads.
#pragma once

#include <cstdint>

#include "ptx/warp.h"

namespace callout::software_gpu::ptx {

// Arithmetic: `operation`, `to`, `second`, `in`.
void RunOperation(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// The same with a second result (`second` or none of both may be there), or a sign to extend.
void RunWideOperation(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunMove(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// mov.b64 {a, b}, c: `list` of `count`, `bytes` each.
void RunUnpack(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunPack(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// `kind` is a Special, `mode` its part.
void RunSpecial(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// `to` = the lane's local memory + `offset`.
void RunLocalAddress(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// `to` = `in[0]` + `offset`: cvta.
void RunConvertAddress(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// isspacep: whether the window of `in[0]` is `offset`.
void RunIsSpace(Warp& warp, const Instruction& instruction, uint32_t lanes);

// Memory: `mode` is a Place, the address `in[0]` + `offset`, without `in[0]` relative to the frame's local memory;
// `count` elements of `bytes`, whose places are in list `target` if there are several.
Handler LoadHandler(int bytes, bool atomic);
Handler StoreHandler(int bytes, bool atomic);
/// `kind` is an AtomicKind.
Handler AtomicHandler(int bytes);
void RunFence(Warp& warp, const Instruction& instruction, uint32_t lanes);
/// Copies `bytes` from the global address `in[1]` + `mode2` to the shared one `in[0]` + `offset`, of which `in[2]` are
/// read.
void RunCopyAsync(Warp& warp, const Instruction& instruction, uint32_t lanes);

// Control.
void RunNothing(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunBranch(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunBranchTable(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunCall(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunReturn(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunExit(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunTrap(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunNanosleep(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunBarrier(Warp& warp, const Instruction& instruction, uint32_t lanes);

// Lanes together: `kind` is a Collective.
void RunCollective(Warp& warp, const Instruction& instruction, uint32_t lanes);
void RunActiveMask(Warp& warp, const Instruction& instruction, uint32_t lanes);

/// A call of a function that the device's runtime has.
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
  kTime,  ///< Nanoseconds, also of %clock.
  kTimeHigh,
  kEnvironment,
  kDynamicShared,
  kTotalShared,
  kDynamicBase,
  kConstant,  ///< `offset`
};

}  // namespace callout::software_gpu::ptx
