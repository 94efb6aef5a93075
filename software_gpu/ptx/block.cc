// SPDX-License-Identifier: Apache-2.0
//
// Runs a block: its warps in turn, and its barriers (PTX ISA 9.7.13, bar and barrier).
#include "ptx/warp.h"

#include <algorithm>

namespace callout::software_gpu::ptx {
namespace {

/// Fills shared memory, which is undefined before a kernel writes it: zeros would hide a kernel that reads it.
constexpr std::byte kUnwritten{0xa5};

}  // namespace

Block::Block(Grid& grid) : grid_(grid), warps_((grid.threads + kWarpLanes - 1) / kWarpLanes) {}

void Block::Start(const std::array<uint32_t, 3>& index) {
  index_ = index;
  shared_.assign(grid_.shared_bytes, kUnwritten);
  for (Barrier& barrier : barriers_) barrier = {};
  for (size_t i = 0; i < warps_.size(); ++i) warps_[i].Start(*this, static_cast<uint32_t>(i));
}

bool Block::Run() {
  for (uint32_t round = 1;; ++round) {
    if (round % 16 == 0) grid_.CheckStopped();
    bool ended = true, any = false, settled = false, polled = false;
    for (Warp& warp : warps_) {
      if (warp.runnable()) {
        any = true;
        settled |= !warp.Run();
        polled |= warp.TakePolled();
      }
      ended &= warp.ended();
    }
    if (ended) return true;
    if (!any) RaiseDeadlock();
    if (polled && !settled) return false;
  }
}

void Block::Arrive(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const BarrierKind kind = static_cast<BarrierKind>(instruction.kind);
  const int leader = std::countr_zero(lanes);
  const uint64_t id = warp.Read(instruction.in[0])[leader];
  const uint64_t expected = instruction.in[1] == kNoSlot ? 0 : warp.Read(instruction.in[1])[leader];
  if (id >= barriers_.size()) warp.Raise(Fault::kIllegalInstruction, "no barrier " + std::to_string(id), leader);
  if (expected % kWarpLanes != 0) {
    warp.Raise(Fault::kIllegalInstruction, "a barrier of threads that are no whole warps", leader);
  }
  Barrier& barrier = barriers_[id];
  if (!barrier.used) {
    barrier = {};
    barrier.used = true;
    barrier.expected = static_cast<uint32_t>(expected);
    barrier.arrived.assign(warps_.size(), 0);
    barrier.waiting.assign(warps_.size(), 0);
  }
  if (barrier.expected != expected) {
    warp.Raise(Fault::kIllegalInstruction, "other threads at the barrier expect another count", leader);
  }
  if (kind >= BarrierKind::kPopc) {
    uint32_t set = warp.Predicate(instruction.in[2], lanes);
    if (instruction.mode != 0) set = lanes & ~set;  // for bar.red with !p
    barrier.popc += static_cast<uint32_t>(std::popcount(set));
    barrier.all &= set == lanes;
    barrier.any |= set != 0;
  }
  barrier.arrived[warp.index()] |= lanes;
  if (kind != BarrierKind::kArrive) {
    barrier.waiting[warp.index()] |= lanes;
    warp.Wait(lanes);
  }
  Check(barrier);
}

uint64_t Block::Arrived(const Barrier& barrier) const {
  uint64_t count = 0;
  for (size_t i = 0; i < warps_.size(); ++i) {
    const uint32_t lanes = barrier.arrived[i];
    // Barriers count whole warps, even a warp that has fewer threads.
    count += lanes != 0 && (warps_[i].live() & ~lanes) == 0 ? kWarpLanes : std::popcount(lanes);
  }
  return count;
}

void Block::Check(Barrier& barrier) {
  if (!barrier.used) return;
  if (barrier.expected != 0) {
    if (Arrived(barrier) >= barrier.expected) Release(barrier);
    return;
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    if ((warps_[i].live() & ~barrier.arrived[i]) != 0) return;
  }
  Release(barrier);
}

void Block::Release(Barrier& barrier) {
  barrier.used = false;
  for (size_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    ForLanes(barrier.waiting[i], [&](int lane) {
      const Instruction& instruction = warp.LaneInstruction(lane);
      const BarrierKind kind = static_cast<BarrierKind>(instruction.kind);
      if (kind < BarrierKind::kPopc) return;
      warp.WriteLane(instruction.to, lane,
                     kind == BarrierKind::kPopc  ? barrier.popc
                     : kind == BarrierKind::kAnd ? barrier.all
                                                 : barrier.any);
    });
    if (barrier.waiting[i] != 0) warp.Wake(barrier.waiting[i]);
  }
}

void Block::Ended() {
  for (Barrier& barrier : barriers_) Check(barrier);
}

void Block::RaiseDeadlock() const {
  for (const Warp& warp : warps_) {
    if (warp.ended()) continue;
    const int lane = std::countr_zero(warp.live());
    warp.RaiseAt(Fault::kDeadlock, "waits forever for other threads of its block", lane);
  }
  throw LaunchFault{Fault::kDeadlock, grid_.kernel.name};
}

}  // namespace callout::software_gpu::ptx
