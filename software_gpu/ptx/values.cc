// SPDX-License-Identifier: Apache-2.0
//
// Runs arithmetic, moves, special registers (PTX ISA 10) and conversions of addresses.
#include <cstring>

#include "ptx/handlers.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kZeros[kWarpLanes] = {};

struct Inputs {
  Inputs(Warp& warp, const Instruction& instruction) {
    for (size_t i = 0; i < 4; ++i) at[i] = instruction.in[i] == kNoSlot ? kZeros : warp.Read(instruction.in[i]);
  }
  std::array<const uint64_t*, 4> at;
};

uint64_t SpecialOfLane(const Instruction& instruction, Warp& warp, int lane) {
  const uint32_t bit = uint32_t{1} << lane;
  switch (static_cast<Special>(instruction.kind)) {
    case Special::kThread:
      return warp.Thread(lane)[instruction.mode];
    case Special::kLane:
      return static_cast<uint64_t>(lane);
    case Special::kLaneMaskEq:
      return bit;
    case Special::kLaneMaskLe:
      return bit | (bit - 1);
    case Special::kLaneMaskLt:
      return bit - 1;
    case Special::kLaneMaskGe:
      return ~(bit - 1);
    default:
      return ~(bit | (bit - 1));
  }
}

uint64_t SpecialOfWarp(const Instruction& instruction, Warp& warp) {
  Grid& grid = warp.grid();
  switch (static_cast<Special>(instruction.kind)) {
    case Special::kBlockExtent:
      return grid.shape.block[instruction.mode];
    case Special::kBlock:
      return warp.block().index()[instruction.mode];
    case Special::kGridExtent:
      return grid.shape.grid[instruction.mode];
    case Special::kWarp:
      return warp.index();
    case Special::kWarps:
      return warp.block().warps();
    case Special::kTime:
      return grid.machine.Nanoseconds();
    case Special::kTimeHigh:
      return grid.machine.Nanoseconds() >> 32;
    case Special::kEnvironment:
      // The address through which blocks of a cooperative launch meet: the CUDA toolkit's cooperative groups read it
      // from %envreg1 and 2.
      if (!grid.shape.cooperative) return 0;
      return instruction.mode == 1 ? kGridWindow >> 32 : instruction.mode == 2 ? kGridWindow & 0xffffffff : 0;
    case Special::kDynamicShared:
      return grid.shape.dynamic_shared;
    case Special::kTotalShared:
      return grid.shared_bytes;
    case Special::kDynamicBase:
      return grid.dynamic_base + static_cast<uint64_t>(instruction.offset);
    default:
      return static_cast<uint64_t>(instruction.offset);
  }
}

}  // namespace

void RunOperation(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const Inputs in(warp, instruction);
  instruction.operation.value.warp(instruction.operation.how, warp.Write(instruction.to), in.at[0], in.at[1], in.at[2],
                                   in.at[3], lanes);
}

void RunWideOperation(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const Inputs in(warp, instruction);
  const Operation& operation = instruction.operation;
  uint64_t second[kWarpLanes];
  // Computes the second result first, because the first result may overwrite the inputs.
  if (instruction.second != kNoSlot) {
    operation.second.warp(operation.how, second, in.at[0], in.at[1], in.at[2], in.at[3], lanes);
  }
  uint64_t* to = warp.Write(instruction.to);
  operation.value.warp(operation.how, to, in.at[0], in.at[1], in.at[2], in.at[3], lanes);
  if (instruction.extend != 0) {
    ForLanes(lanes, [&](int lane) {
      to[lane] = ZeroExtend(SignExtend(to[lane], instruction.extend), instruction.register_bits);
    });
  }
  if (instruction.second == kNoSlot) return;
  uint64_t* other = warp.Write(instruction.second);
  ForLanes(lanes, [&](int lane) { other[lane] = second[lane]; });
}

void RunMove(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const uint64_t* from = warp.Read(instruction.in[0]);
  uint64_t* to = warp.Write(instruction.to);
  const uint64_t mask = ZeroExtend(~uint64_t{0}, instruction.register_bits);
  ForLanes(lanes, [&](int lane) { to[lane] = from[lane] & mask; });
}

void RunUnpack(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const std::vector<Slot>& list = warp.grid().code.lists[instruction.target];
  const uint64_t* from = warp.Read(instruction.in[0]);
  const int bits = 8 * instruction.bytes;
  ForLanes(lanes, [&](int lane) {
    const uint64_t value = from[lane];
    for (size_t i = 0; i < list.size(); ++i) {
      warp.Write(list[i])[lane] = ZeroExtend(value >> (static_cast<int>(i) * bits), bits);
    }
  });
}

void RunPack(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const std::vector<Slot>& list = warp.grid().code.lists[instruction.target];
  uint64_t* to = warp.Write(instruction.to);
  const int bits = 8 * instruction.bytes;
  ForLanes(lanes, [&](int lane) {
    uint64_t value = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      value |= ZeroExtend(warp.Read(list[i])[lane], bits) << (static_cast<int>(i) * bits);
    }
    to[lane] = value;
  });
}

void RunSpecial(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  uint64_t* to = warp.Write(instruction.to);
  const Special special = static_cast<Special>(instruction.kind);
  if (special == Special::kThread || special == Special::kLane ||
      (special >= Special::kLaneMaskEq && special <= Special::kLaneMaskGt)) {
    ForLanes(lanes, [&](int lane) {
      to[lane] = ZeroExtend(SpecialOfLane(instruction, warp, lane), instruction.register_bits);
    });
    return;
  }
  const uint64_t value = ZeroExtend(SpecialOfWarp(instruction, warp), instruction.register_bits);
  ForLanes(lanes, [&](int lane) { to[lane] = value; });
}

void RunLocalAddress(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  uint64_t* to = warp.Write(instruction.to);
  ForLanes(lanes, [&](int lane) { to[lane] = warp.local_base(lane) + static_cast<uint64_t>(instruction.offset); });
}

void RunConvertAddress(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const uint64_t* from = warp.Read(instruction.in[0]);
  uint64_t* to = warp.Write(instruction.to);
  ForLanes(lanes, [&](int lane) { to[lane] = from[lane] + static_cast<uint64_t>(instruction.offset); });
}

void RunIsSpace(Warp& warp, const Instruction& instruction, uint32_t lanes) {
  const uint64_t* from = warp.Read(instruction.in[0]);
  uint64_t* to = warp.Write(instruction.to);
  ForLanes(lanes, [&](int lane) {
    const uint64_t window = from[lane] >> kWindowShift << kWindowShift;
    const bool known = window == kSharedWindow || window == kLocalWindow || window == kParameterWindow;
    to[lane] = instruction.offset == 0 ? !known : window == static_cast<uint64_t>(instruction.offset);
  });
}

}  // namespace callout::software_gpu::ptx
