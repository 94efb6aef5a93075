// SPDX-License-Identifier: Apache-2.0
//
// Chooses the lanes of a warp that run. Each lane has a program counter (as since Volta). Lanes in the deepest call and
// at the smallest counter run together, which rejoins diverged lanes. After a while other lanes get their turn, so that
// lanes may wait for each other.
#include "ptx/warp.h"

#include <algorithm>
#include <cstring>

namespace callout::software_gpu::ptx {
namespace {

constexpr int32_t kTurn = 8192;      // instructions until the next warp runs
constexpr int32_t kGroupTurn = 512;  // instructions until other lanes of the warp run
constexpr uint32_t kMaxRegisterSlots = 1 << 16;
constexpr uint32_t kNowhere = UINT32_MAX;

}  // namespace

std::byte* Grid::Find(uint64_t address, uint64_t bytes, bool write) {
  for (Range& range : ranges) {
    const uint64_t offset = address - range.begin;
    if (address < range.begin || address >= range.end || range.end - address < bytes) continue;
    if (write && !range.writable) return nullptr;
    std::byte* host = range.host + offset;
    if (&range != ranges.data()) std::swap(range, ranges[0]);
    return host;
  }
  const Range found = machine.Find(address);
  if (found.host == nullptr || address < found.begin || address >= found.end) return nullptr;
  next_range = next_range % static_cast<uint32_t>(ranges.size() - 1) + 1;
  ranges[next_range] = found;
  if (found.end - address < bytes || (write && !found.writable)) return nullptr;
  return found.host + (address - found.begin);
}

void Warp::Start(Block& block, uint32_t index) {
  block_ = &block;
  const Grid& grid = block.grid();
  const std::array<uint32_t, 3>& extent = grid.shape.block;
  const uint32_t first = index * kWarpLanes;
  const uint64_t lanes = std::min<uint64_t>(kWarpLanes, grid.threads - first);
  if (code_ == nullptr || index_ != index) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      const uint32_t thread = first + lane;
      threads_[lane] = {thread % extent[0], thread / extent[0] % extent[1], thread / extent[0] / extent[1]};
    }
  }
  const Routine& routine = grid.code.routines[grid.kernel.function];
  code_ = grid.code.instructions.data();
  constants_ = grid.code.constants.data();
  index_ = index;
  exists_ = lanes == kWarpLanes ? ~uint32_t{0} : (uint32_t{1} << lanes) - 1;
  exited_ = waiting_ = meeting_ = 0;
  pcs_.fill(routine.begin);
  bases_.fill(0);
  local_base_.fill(0);
  routine_.fill(grid.kernel.function);
  last_turn_.fill(0);
  for (std::vector<Frame>& frames : frames_) frames.clear();
  std::fill(registers_.begin(), registers_.end(), 0);
  GrowRegisters(routine.registers);
  GrowLocal(routine.local_bytes);
  std::fill(local_.begin(), local_.end(), std::byte{0});
  turn_ = 0;
  group_budget_ = 1;
  polled_ = false;
}

void Warp::GrowRegisters(uint32_t slots) {
  if (slots > kMaxRegisterSlots) Raise(Fault::kStackOverflow, "calls nested too deep", -1);
  const size_t size = static_cast<size_t>(slots) * kWarpLanes;
  if (registers_.size() < size) registers_.resize(size);
}

void Warp::GrowLocal(uint32_t bytes) {
  if (bytes <= local_capacity_) return;
  if (bytes > kMaxLocalBytes) Raise(Fault::kStackOverflow, "more local memory than 512 KiB a thread", -1);
  const uint32_t capacity = static_cast<uint32_t>(RoundUp(bytes, 64)) + local_capacity_;
  std::vector<std::byte> grown(static_cast<size_t>(capacity) * kWarpLanes);
  if (local_capacity_ != 0) {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      std::memcpy(grown.data() + static_cast<size_t>(lane) * capacity, Local(lane), local_capacity_);
    }
  }
  local_ = std::move(grown);
  local_capacity_ = capacity;
}

uint32_t Warp::Predicate(Slot slot, uint32_t lanes) const {
  const uint64_t* values = Read(slot);
  uint32_t set = 0;
  for (int lane = 0; lane < kWarpLanes; ++lane) set |= static_cast<uint32_t>(values[lane] & 1) << lane;
  return set & lanes;
}

uint64_t Warp::ReadLane(Slot slot, int lane) const {
  if (slot < 0) return constants_[(-1 - int64_t{slot}) * kWarpLanes + lane];
  return registers_[(static_cast<size_t>(bases_[lane]) + slot) * kWarpLanes + lane];
}

void Warp::WriteLane(Slot slot, int lane, uint64_t value) {
  registers_[(static_cast<size_t>(bases_[lane]) + slot) * kWarpLanes + lane] = value;
}

const Instruction& Warp::LaneInstruction(int lane) const { return code_[pcs_[lane]]; }

void Warp::Select() {
  const uint32_t lanes = RunnableLanes();
  active_ = 0;
  if (lanes == 0) return;
  int leader = std::countr_zero(lanes);
  const bool fair = group_budget_ <= 0;
  ForLanes(lanes, [&](int lane) {
    if (fair) {
      if (last_turn_[lane] < last_turn_[leader]) leader = lane;
    } else if (bases_[lane] > bases_[leader] || (bases_[lane] == bases_[leader] && pcs_[lane] < pcs_[leader])) {
      leader = lane;
    }
  });
  pc_ = pcs_[leader];
  join_ = kNowhere;
  ++turn_;
  ForLanes(lanes, [&](int lane) {
    if (bases_[lane] != bases_[leader]) return;
    if (pcs_[lane] == pc_) {
      active_ |= uint32_t{1} << lane;
      last_turn_[lane] = turn_;
    } else if (pcs_[lane] > pc_) {
      join_ = std::min(join_, pcs_[lane]);
    }
  });
  frame_ = registers_.data() + static_cast<size_t>(bases_[leader]) * kWarpLanes;
  group_budget_ = active_ == lanes ? budget_ : std::min(kGroupTurn, budget_);
}

bool Warp::Run() {
  budget_ = kTurn;
  while (true) {
    Select();
    if (active_ == 0) return false;
    const int32_t begin = group_budget_;
    reselect_ = false;
    while (!reselect_) {
      const Instruction& instruction = code_[pc_++];
      uint32_t lanes = active_;
      if (instruction.guard != kNoSlot) {
        lanes = Predicate(instruction.guard, active_);
        if (instruction.guard_negated) lanes = active_ & ~lanes;
      }
      if (lanes != 0) instruction.run(*this, instruction, lanes);
      if (--group_budget_ <= 0 || pc_ >= join_) break;
    }
    ForLanes(active_, [&](int lane) { pcs_[lane] = pc_; });
    budget_ -= begin - group_budget_;
    if (budget_ <= 0) return runnable();
  }
}

void Warp::Branch(uint32_t target, uint32_t lanes) {
  if (lanes == active_) {
    pc_ = target;
    return;
  }
  ForLanes(lanes, [&](int lane) { BranchLane(lane, target); });
}

void Warp::BranchLane(int lane, uint32_t target) {
  pcs_[lane] = target;
  active_ &= ~(uint32_t{1} << lane);
  reselect_ = true;
}

void Warp::Wait(uint32_t lanes) {
  ForLanes(lanes, [&](int lane) { BranchLane(lane, pc_ - 1); });
  waiting_ |= lanes;
}

void Warp::Wake(uint32_t lanes) {
  ForLanes(lanes, [&](int lane) { ++pcs_[lane]; });
  waiting_ &= ~lanes;
  reselect_ = true;  // they may be where other lanes run
}

void Warp::Exit(uint32_t lanes) {
  exited_ |= lanes;
  active_ &= ~lanes;
  reselect_ = true;
  while (TryMeet()) {
  }
  block_->Ended();
}

void Warp::Enter(const Call& call, uint32_t index, uint32_t routine, uint32_t lanes) {
  const std::vector<Routine>& routines = grid().code.routines;
  const int leader = std::countr_zero(lanes);
  const Routine& caller = routines[routine_[leader]];
  const Routine& callee = routines[routine];
  const uint32_t caller_base = bases_[leader];
  const uint32_t base = caller_base + caller.registers;
  GrowRegisters(base + callee.registers);
  frame_ = registers_.data() + static_cast<size_t>(caller_base) * kWarpLanes;
  ForLanes(lanes, [&](int lane) {
    const uint32_t local = static_cast<uint32_t>(RoundUp(local_base_[lane] + caller.local_bytes, 16));
    GrowLocal(local + callee.local_bytes);
    frames_[lane].push_back({pc_, index, caller_base, local_base_[lane], routine_[lane]});
    for (const Passed& move : call.arguments) {
      if (move.in_registers) {
        registers_[(static_cast<size_t>(base) + move.to) * kWarpLanes + lane] = ReadLane(move.from, lane);
      } else {
        std::memcpy(Local(lane) + local + move.to_offset, Local(lane) + local_base_[lane] + move.from_offset,
                    move.bytes);
      }
    }
    local_base_[lane] = local;
    bases_[lane] = base;
    routine_[lane] = routine;
    pcs_[lane] = callee.begin;
  });
  active_ &= ~lanes;
  reselect_ = true;
}

void Warp::Return(uint32_t lanes) {
  uint32_t ended = 0;
  ForLanes(lanes, [&](int lane) {
    if (frames_[lane].empty()) {
      ended |= uint32_t{1} << lane;
      return;
    }
    const Frame frame = frames_[lane].back();
    frames_[lane].pop_back();
    const uint32_t base = bases_[lane];
    for (const Passed& move : grid().code.calls[frame.call].results) {
      if (move.in_registers) {
        registers_[(static_cast<size_t>(frame.registers) + move.to) * kWarpLanes + lane] =
            registers_[(static_cast<size_t>(base) + move.from) * kWarpLanes + lane];
      } else {
        std::memcpy(Local(lane) + frame.local + move.to_offset, Local(lane) + local_base_[lane] + move.from_offset,
                    move.bytes);
      }
    }
    bases_[lane] = frame.registers;
    local_base_[lane] = frame.local;
    routine_[lane] = frame.routine;
    pcs_[lane] = frame.return_to;
  });
  active_ &= ~lanes;
  reselect_ = true;
  if (ended != 0) Exit(ended);
}

std::byte* Warp::Find(Place place, uint64_t address, uint64_t bytes, uint64_t alignment, bool write, int lane) {
  if ((address & (alignment - 1)) != 0) {
    Raise(Fault::kMisalignedAddress,
          "address " + std::to_string(address) + " is no multiple of " + std::to_string(alignment), lane);
  }
  const auto within = [&](std::byte* base, uint64_t at, uint64_t size) {
    return size >= bytes && at <= size - bytes ? base + at : nullptr;
  };
  std::byte* found = nullptr;
  uint64_t offset = address;
  if (place == Place::kGeneric) {
    offset = address & ((uint64_t{1} << kWindowShift) - 1);
    const uint64_t window = address - offset;
    place = window == kSharedWindow      ? Place::kShared
            : window == kLocalWindow     ? Place::kLocal
            : window == kParameterWindow ? Place::kKernelParameter
                                         : Place::kGlobal;
    if (window == kGridWindow) return within(grid().meeting.data(), offset, kGridBytes);
  }
  if (place == Place::kShared) {
    found = within(block_->shared().data(), offset, grid().shared_bytes);
  } else if (place == Place::kLocal) {
    found = within(Local(lane), offset, local_base_[lane] + grid().code.routines[routine_[lane]].local_bytes);
  } else if (place == Place::kKernelParameter) {
    // The const_cast is safe: writes are refused.
    std::byte* base = const_cast<std::byte*>(grid().parameters.data());
    found = write ? nullptr : within(base, offset, grid().parameters.size());
  } else {
    found = grid().Find(address, bytes, write);
  }
  if (found == nullptr) {
    static constexpr const char* kNames[] = {"generic", "global", "shared", "local", "parameter"};
    Raise(Fault::kIllegalAddress,
          std::string(write ? "a write" : "a read") + " of " + std::to_string(bytes) + " bytes at " +
              kNames[static_cast<int>(place)] + " address " + std::to_string(address),
          lane);
  }
  return found;
}

void Warp::Raise(Fault::Kind kind, const std::string& what, int lane) const {
  RaiseAtPc(kind, what, lane, pc_ == 0 ? 0 : pc_ - 1);
}

void Warp::RaiseAt(Fault::Kind kind, const std::string& what, int lane) const {
  RaiseAtPc(kind, what, lane, pcs_[lane]);
}

void Warp::RaiseAtPc(Fault::Kind kind, const std::string& what, int lane, uint32_t at) const {
  const Grid& grid = block_->grid();
  const auto triple = [](const std::array<uint32_t, 3>& of) {
    return "(" + std::to_string(of[0]) + "," + std::to_string(of[1]) + "," + std::to_string(of[2]) + ")";
  };
  std::string text = "kernel " + grid.kernel.name + ", block " + triple(block_->index());
  if (lane >= 0) text += ", thread " + triple(threads_[lane]);
  text += ", line " + std::to_string(code_[at].line) + ", " + grid.code.spellings[at] + ": " + what;
  throw LaunchFault{kind, text};
}

}  // namespace callout::software_gpu::ptx
