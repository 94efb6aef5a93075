// SPDX-License-Identifier: Apache-2.0
//
// Operations of several lanes of a warp: shfl, vote, match, redux, elect, bar.warp.sync, activemask (PTX ISA 9.7.8 and
// 9.7.13). Each waits until all live lanes of its member mask are at an instruction of the same kind with the same
// mask, which may be at another place of the program.
#include "ptx/handlers.h"

namespace callout::software_gpu::ptx {
namespace {

/// Lanes that have met, each at an instruction of its own, of one kind.
struct Group {
  Warp& warp;
  uint32_t lanes;
  std::array<const Instruction*, kWarpLanes> at = {};

  uint64_t Value(int lane, size_t input) const { return warp.ReadLane(at[lane]->in[input], lane); }
  bool Predicate(int lane, size_t input) const {
    return ((Value(lane, input) & 1) != 0) != (at[lane]->mode != 0);  // mode stands for !p
  }
  void Write(int lane, uint64_t value) const {
    if (at[lane]->to != kNoSlot) warp.WriteLane(at[lane]->to, lane, value);
  }
  void WriteSecond(int lane, uint64_t value) const {
    if (at[lane]->second != kNoSlot) warp.WriteLane(at[lane]->second, lane, value);
  }
};

/// Returns the member mask, which is the last input.
uint32_t MaskOf(const Group& group, int lane) {
  const Instruction& instruction = *group.at[lane];
  size_t last = 3;
  while (last > 0 && instruction.in[last] == kNoSlot) --last;
  return static_cast<uint32_t>(group.Value(lane, last));
}

void RunShuffle(const Group& group) {
  std::array<uint64_t, kWarpLanes> values = {};
  ForLanes(group.lanes, [&](int lane) { values[lane] = group.Value(lane, 0); });
  ForLanes(group.lanes, [&](int lane) {
    const int b = static_cast<int>(group.Value(lane, 1) & 31);
    const int c = static_cast<int>(group.Value(lane, 2));
    const int clamp = c & 31, segment = c >> 8 & 31;
    const int last = (lane & segment) | (clamp & ~segment);
    const int first = lane & segment;
    int from = lane;
    bool inside = false;
    switch (static_cast<Shuffle>(group.at[lane]->mode)) {
      case Shuffle::kUp:
        from = lane - b;
        inside = from >= last;
        break;
      case Shuffle::kDown:
        from = lane + b;
        inside = from <= last;
        break;
      case Shuffle::kButterfly:
        from = lane ^ b;
        inside = from <= last;
        break;
      case Shuffle::kIndex:
        from = first | (b & ~segment);
        inside = from <= last;
        break;
    }
    if (!inside) from = lane;
    // The value of a lane that does not participate is undefined: the reader gets its own.
    const bool there = (group.lanes >> from & 1) != 0;
    group.Write(lane, values[there ? from : lane]);
    group.WriteSecond(lane, inside);
  });
}

void RunVote(const Group& group, Collective kind) {
  uint32_t ballot = 0;
  ForLanes(group.lanes, [&](int lane) { ballot |= uint32_t{group.Predicate(lane, 0)} << lane; });
  uint64_t result = ballot;
  if (kind == Collective::kVoteAll) result = ballot == group.lanes;
  if (kind == Collective::kVoteAny) result = ballot != 0;
  if (kind == Collective::kVoteUniform) result = ballot == 0 || ballot == group.lanes;
  ForLanes(group.lanes, [&](int lane) { group.Write(lane, result); });
}

void RunMatch(const Group& group, Collective kind) {
  std::array<uint64_t, kWarpLanes> values = {};
  ForLanes(group.lanes, [&](int lane) { values[lane] = ZeroExtend(group.Value(lane, 0), 8 * group.at[lane]->bytes); });
  ForLanes(group.lanes, [&](int lane) {
    uint32_t same = 0;
    ForLanes(group.lanes, [&](int other) { same |= uint32_t{values[other] == values[lane]} << other; });
    if (kind == Collective::kMatchAny) return group.Write(lane, same);
    group.Write(lane, same == group.lanes ? same : 0);
    group.WriteSecond(lane, same == group.lanes);
  });
}

void RunReduce(const Group& group) {
  const int leader = std::countr_zero(group.lanes);
  const Operation& operation = group.at[leader]->operation;
  uint64_t result = group.Value(leader, 0);
  ForLanes(group.lanes & (group.lanes - 1),
           [&](int lane) { result = operation.value.lane(operation.how, result, group.Value(lane, 0), 0, 0); });
  ForLanes(group.lanes, [&](int lane) { group.Write(lane, ZeroExtend(result, 32)); });
}

void Perform(const Group& group) {
  const int leader = std::countr_zero(group.lanes);
  const Collective kind = static_cast<Collective>(group.at[leader]->kind);
  switch (kind) {
    case Collective::kWarpBarrier:
      return;
    case Collective::kShuffle:
      return RunShuffle(group);
    case Collective::kVoteAll:
    case Collective::kVoteAny:
    case Collective::kVoteUniform:
    case Collective::kBallot:
      return RunVote(group, kind);
    case Collective::kMatchAny:
    case Collective::kMatchAll:
      return RunMatch(group, kind);
    case Collective::kReduce:
      return RunReduce(group);
    case Collective::kElect:
      ForLanes(group.lanes, [&](int lane) {
        group.Write(lane, static_cast<uint64_t>(leader));
        group.WriteSecond(lane, lane == leader);
      });
      return;
  }
}

}  // namespace

void Warp::Meet(const Instruction& instruction, uint32_t lanes) {
  Group group{*this, lanes};
  ForLanes(lanes, [&](int lane) { group.at[lane] = &instruction; });
  const uint32_t mask = MaskOf(group, std::countr_zero(lanes));
  bool together = (mask & live()) == lanes;
  ForLanes(lanes, [&](int lane) {
    const uint32_t own = MaskOf(group, lane);
    if ((own >> lane & 1) == 0) {
      Raise(Fault::kIllegalInstruction, "the lane is not in its member mask " + std::to_string(own), lane);
    }
    together &= own == mask;
  });
  if (together) return Perform(group);
  Wait(lanes);
  meeting_ |= lanes;
  while (TryMeet()) {
  }
}

bool Warp::TryMeet() {
  Group group{*this, 0};
  ForLanes(meeting_, [&](int lane) { group.at[lane] = &LaneInstruction(lane); });
  for (uint32_t rest = meeting_; rest != 0; rest &= rest - 1) {
    const int leader = std::countr_zero(rest);
    const uint32_t mask = MaskOf(group, leader);
    group.lanes = 0;
    ForLanes(meeting_ & mask, [&](int lane) {
      const bool same = group.at[lane]->kind == group.at[leader]->kind && MaskOf(group, lane) == mask;
      group.lanes |= uint32_t{same} << lane;
    });
    if (group.lanes != (mask & live())) continue;
    Perform(group);
    meeting_ &= ~group.lanes;
    Wake(group.lanes);
    return true;
  }
  return false;
}

void RunCollective(Warp& warp, const Instruction& instruction, uint32_t lanes) { warp.Meet(instruction, lanes); }

void RunActiveMask(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  uint64_t* to = warp.Write(instruction.to);
  ForLanes(lanes, [&](int lane) { to[lane] = lanes; });
}

}  // namespace callout::software_gpu::ptx
