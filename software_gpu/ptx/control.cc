// SPDX-License-Identifier: Apache-2.0
//
// Runs branches, calls, ends, barriers (PTX ISA 9.7.12 and 9.7.13).
#include "ptx/handlers.h"

namespace callout::software_gpu::ptx {

void RunNothing(Warp&, const Instruction&, uint32_t) {}

void RunBranch(Warp& warp, const Instruction& instruction, uint32_t lanes) { warp.Branch(instruction.target, lanes); }

void RunBranchTable(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const std::vector<uint32_t>& targets = warp.grid().code.branches[instruction.target];
  const uint64_t* index = warp.Read(instruction.in[0]);
  ForLanes(lanes, [&](int lane) {
    const uint64_t at = index[lane] & 0xffffffff;
    if (at >= targets.size()) warp.Raise(Fault::kInvalidPc, "brx.idx beyond its targets", lane);
    warp.BranchLane(lane, targets[at]);
  });
}

void RunCall(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const Code& code = warp.grid().code;
  const Call& call = code.calls[instruction.target];
  if (call.builtin != Builtin::kNone) return RunBuiltin(warp, call, lanes);
  if (call.routine >= 0) {
    return warp.Enter(call, instruction.target, static_cast<uint32_t>(call.routine), lanes);
  }
  const uint64_t* address = warp.Read(call.address);
  while (lanes != 0) {  // each turn: the lanes that call the same function
    const int leader = std::countr_zero(lanes);
    const uint64_t callee = address[leader] - kCodeWindow;
    uint32_t same = 0;
    ForLanes(lanes, [&](int lane) { same |= uint32_t{address[lane] == address[leader]} << lane; });
    if (callee >= code.routines.size() || call.resolved[callee] < 0) {
      warp.Raise(Fault::kInvalidPc, "a call of an address that is no function with this prototype", leader);
    }
    const uint32_t direct = static_cast<uint32_t>(call.resolved[callee]);
    warp.Enter(code.calls[direct], direct, static_cast<uint32_t>(callee), same);
    address = warp.Read(call.address);
    lanes &= ~same;
  }
}

void RunReturn(Warp& warp, const Instruction&, uint32_t lanes) { warp.Return(lanes); }

void RunExit(Warp& warp, const Instruction&, uint32_t lanes) { warp.Exit(lanes); }

void RunTrap(Warp& warp, const Instruction&, uint32_t lanes) {
  warp.Raise(Fault::kTrap, "the kernel trapped", std::countr_zero(lanes));
}

void RunNanosleep(Warp& warp, const Instruction&, uint32_t) { warp.Poll(1 << 14); }

void RunBarrier(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  warp.block().Arrive(warp, instruction, lanes);
}

}  // namespace callout::software_gpu::ptx
