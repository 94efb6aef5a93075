// SPDX-License-Identifier: Apache-2.0
//
// The state of a launch: its blocks, their warps, and the registers and program counters of the warps' lanes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ptx/code.h"

namespace callout::software_gpu::ptx {

class Block;

/// An error that handlers throw, which ends the launch.
struct LaunchFault {
  Fault::Kind kind;
  std::string text;
};

/// Visits the lanes of `mask`, from the lowest.
template <typename F>
inline void ForLanes(uint32_t mask, F&& visit) {
  if (mask == ~uint32_t{0}) {
    for (int lane = 0; lane < kWarpLanes; ++lane) visit(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) visit(std::countr_zero(mask));
}

/// The state that all blocks of a launch share.
struct Grid {
  const Code& code;
  const Kernel& kernel;
  const Shape& shape;
  std::span<const std::byte> parameters;
  Machine& machine;
  uint64_t threads = 0;  ///< The number of threads in a block.
  uint32_t dynamic_base = 0;
  uint32_t shared_bytes = 0;  ///< Static and dynamic.
  std::array<std::byte, kGridBytes> meeting = {};
  std::array<Range, 8> ranges = {};  ///< The ranges used recently.
  uint32_t next_range = 0;

  /// Returns the host's address of `bytes` bytes at a global address, or null.
  std::byte* Find(uint64_t address, uint64_t bytes, bool write);
  /// Throws LaunchFault if the device must stop.
  void CheckStopped() const;
};

struct Frame {
  uint32_t return_to = 0;
  uint32_t call = 0;
  uint32_t registers = 0;  ///< The base of the caller's registers.
  uint32_t local = 0;
  uint32_t routine = 0;
};

class Warp {
 public:
  void Start(Block& block, uint32_t index);
  /// Runs until no lane can run, or the budget is spent, in which case it returns true.
  bool Run();
  bool ended() const { return (exists_ & ~exited_) == 0; }
  bool runnable() const { return RunnableLanes() != 0; }
  /// Returns whether the warp has polled for changes by others since the last call.
  bool TakePolled() { return std::exchange(polled_, false); }

  // Functions for handlers.
  Block& block() { return *block_; }
  Grid& grid();
  uint32_t index() const { return index_; }
  const uint64_t* Read(Slot slot) const {
    return slot >= 0 ? frame_ + static_cast<size_t>(slot) * kWarpLanes : constants_ + (-1 - int64_t{slot}) * kWarpLanes;
  }
  uint64_t* Write(Slot slot) { return frame_ + static_cast<size_t>(slot) * kWarpLanes; }
  /// Access a lane that may be in another frame than the lanes that run.
  uint64_t ReadLane(Slot slot, int lane) const;
  void WriteLane(Slot slot, int lane, uint64_t value);
  /// Returns the lanes of `lanes` whose predicate is set.
  uint32_t Predicate(Slot slot, uint32_t lanes) const;

  uint32_t live() const { return exists_ & ~exited_; }
  uint32_t active() const { return active_; }
  uint32_t pc() const { return pc_; }
  const Instruction& LaneInstruction(int lane) const;
  const std::array<uint32_t, 3>& Thread(int lane) const { return threads_[lane]; }

  /// Sends `lanes`, a part of the active ones, to `target`; the others go on.
  void Branch(uint32_t target, uint32_t lanes);
  /// Sends one lane to a place of its own.
  void BranchLane(int lane, uint32_t target);
  void Exit(uint32_t lanes);
  void Return(uint32_t lanes);
  void Enter(const Call& call, uint32_t index, uint32_t routine, uint32_t lanes);
  /// Makes `lanes` wait at the current instruction, until Wake lets them go on behind it.
  void Wait(uint32_t lanes);
  void Wake(uint32_t lanes);
  /// Makes lanes wait for other lanes of the warp, and runs the collective when all have met.
  void Meet(const Instruction& instruction, uint32_t lanes);
  /// Makes the instruction use as much of the warp's turn as `cost` others.
  void Spend(uint32_t cost) { group_budget_ -= static_cast<int32_t>(cost); }
  /// Like Spend, for an instruction that reads what others may change: if a block does nothing else, other blocks get
  /// their turn.
  void Poll(uint32_t cost) {
    Spend(cost);
    polled_ = true;
  }

  std::byte* Local(int lane) { return local_.data() + static_cast<size_t>(lane) * local_capacity_; }
  uint32_t local_base(int lane) const { return local_base_[lane]; }
  uint32_t local_capacity() const { return local_capacity_; }
  /// Returns the host's address of a lane's `bytes` at `address`. Throws LaunchFault if nothing is there or it is
  /// misaligned.
  std::byte* Find(Place place, uint64_t address, uint64_t bytes, uint64_t alignment, bool write, int lane);
  /// Raise reports the running instruction; RaiseAt reports the one where a lane waits.
  [[noreturn]] void Raise(Fault::Kind kind, const std::string& what, int lane) const;
  [[noreturn]] void RaiseAt(Fault::Kind kind, const std::string& what, int lane) const;

 private:
  uint32_t RunnableLanes() const { return exists_ & ~exited_ & ~waiting_; }
  void Select();
  void GrowRegisters(uint32_t slots);
  void GrowLocal(uint32_t bytes);
  bool TryMeet();
  [[noreturn]] void RaiseAtPc(Fault::Kind kind, const std::string& what, int lane, uint32_t at) const;

  Block* block_ = nullptr;
  const Instruction* code_ = nullptr;
  const uint64_t* constants_ = nullptr;
  uint64_t* frame_ = nullptr;  ///< The frame of the lanes that run.
  uint32_t pc_ = 0;
  uint32_t active_ = 0;
  uint32_t join_ = 0;  ///< The place ahead where other lanes wait to rejoin.
  bool reselect_ = false;
  int32_t budget_ = 0;        ///< The rest of the warp's turn.
  int32_t group_budget_ = 0;  ///< The rest of the turn of the lanes that run, while others could run.
  bool polled_ = false;
  uint32_t exists_ = 0, exited_ = 0, waiting_ = 0, meeting_ = 0;
  uint32_t index_ = 0;
  uint64_t turn_ = 0;
  std::array<uint32_t, kWarpLanes> pcs_ = {}, bases_ = {}, local_base_ = {}, routine_ = {};
  std::array<uint64_t, kWarpLanes> last_turn_ = {};
  std::array<std::vector<Frame>, kWarpLanes> frames_;
  std::array<std::array<uint32_t, 3>, kWarpLanes> threads_ = {};
  std::vector<uint64_t> registers_;
  std::vector<std::byte> local_;
  uint32_t local_capacity_ = 0;
};

struct Barrier {
  uint32_t expected = 0;  ///< The number of threads; 0: all threads of the block.
  uint32_t popc = 0;
  bool all = true, any = false;
  std::vector<uint32_t> arrived;  ///< The lanes of each warp.
  std::vector<uint32_t> waiting;
  bool used = false;
};

class Block {
 public:
  explicit Block(Grid& grid);
  void Start(const std::array<uint32_t, 3>& index);
  /// Runs until all threads have ended (true), or all warps that can run have polled for changes by other blocks and
  /// found none.
  bool Run();

  Grid& grid() { return grid_; }
  const std::array<uint32_t, 3>& index() const { return index_; }
  std::vector<std::byte>& shared() { return shared_; }
  size_t warps() const { return warps_.size(); }
  void Arrive(Warp& warp, const Instruction& instruction, uint32_t lanes);
  /// Checks the barriers after threads ended: barriers that wait for all other threads may be complete.
  void Ended();

 private:
  void Check(Barrier& barrier);
  uint64_t Arrived(const Barrier& barrier) const;
  void Release(Barrier& barrier);
  [[noreturn]] void RaiseDeadlock() const;

  Grid& grid_;
  std::array<uint32_t, 3> index_ = {};
  std::vector<std::byte> shared_;
  std::vector<Warp> warps_;
  std::array<Barrier, 16> barriers_;
};

inline Grid& Warp::grid() { return block_->grid(); }

}  // namespace callout::software_gpu::ptx
