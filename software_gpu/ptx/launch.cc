// SPDX-License-Identifier: Apache-2.0
//
// Runs a launch: blocks one after another, and in turn when they wait for each other.
#include <algorithm>
#include <deque>
#include <thread>

#include "ptx/warp.h"

namespace callout::software_gpu::ptx {
namespace {

/// The number of threads that hardware holds at a time (132 multiprocessors of 2048). Further threads wait for the end
/// of others.
constexpr uint64_t kResidentThreads = uint64_t{132} * 2048;

class Scheduler {
 public:
  explicit Scheduler(Grid& grid) : grid_(grid) {
    const std::array<uint32_t, 3>& extent = grid.shape.grid;
    blocks_ = uint64_t{extent[0]} * extent[1] * extent[2];
    limit_ = grid.shape.cooperative ? blocks_ : std::max<uint64_t>(1, kResidentThreads / grid.threads);
  }

  void Run() {
    while (next_ < blocks_ || !waiting_.empty()) {
      if (next_ < blocks_ && waiting_.size() < limit_) {
        RunBlock(Fresh());
      } else {
        RunWaiting();
      }
      if (++rounds_ % 64 == 0) grid_.CheckStopped();
    }
  }

 private:
  std::unique_ptr<Block> Fresh() {
    const std::array<uint32_t, 3>& extent = grid_.shape.grid;
    std::unique_ptr<Block> block;
    if (idle_.empty()) {
      block = std::make_unique<Block>(grid_);
    } else {
      block = std::move(idle_.back());
      idle_.pop_back();
    }
    block->Start({static_cast<uint32_t>(next_ % extent[0]), static_cast<uint32_t>(next_ / extent[0] % extent[1]),
                  static_cast<uint32_t>(next_ / extent[0] / extent[1])});
    ++next_;
    return block;
  }

  void RunBlock(std::unique_ptr<Block> block) { (block->Run() ? idle_ : waiting_).push_back(std::move(block)); }

  /// Lets each waiting block run until it waits again. Blocks wait for each other, for the host or for other streams.
  void RunWaiting() {
    std::vector<std::unique_ptr<Block>> waiting = std::move(waiting_);
    waiting_.clear();
    const size_t count = waiting.size();
    for (std::unique_ptr<Block>& block : waiting) RunBlock(std::move(block));
    if (waiting_.size() == count) {
      std::this_thread::yield();
      grid_.CheckStopped();
    }
  }

  Grid& grid_;
  uint64_t blocks_ = 0;
  uint64_t next_ = 0;
  uint64_t limit_ = 1;
  uint64_t rounds_ = 0;
  std::vector<std::unique_ptr<Block>> waiting_;
  std::vector<std::unique_ptr<Block>> idle_;
};

std::string Refusal(const Kernel& kernel, const Shape& shape, size_t parameters) {
  uint64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.block[i] == 0) return "a launch of no blocks or threads";
    if (shape.block[i] > 1024) return "a block of more than 1024 threads";
    threads *= shape.block[i];
  }
  if (threads > 1024 || threads > kernel.max_threads) {
    return "a block of " + std::to_string(threads) + " threads, the kernel takes " + std::to_string(kernel.max_threads);
  }
  if (kernel.required_block[0] != 0 && kernel.required_block != shape.block) {
    return "a block of another shape than .reqntid";
  }
  if (uint64_t{kernel.shared_bytes} + shape.dynamic_shared > kMaxSharedBytes) return "too much shared memory";
  if (parameters != kernel.parameter_bytes) {
    return std::to_string(parameters) + " bytes of parameters, expected " + std::to_string(kernel.parameter_bytes);
  }
  return "";
}

}  // namespace

void Grid::CheckStopped() const {
  if (machine.Stopped()) throw LaunchFault{Fault::kStopped, "kernel " + kernel.name + " was stopped"};
}

Fault Program::Launch(const Kernel& kernel, const Shape& shape, std::span<const std::byte> parameters,
                      Machine& machine) const {
  if (const std::string refusal = Refusal(kernel, shape, parameters.size()); !refusal.empty()) {
    return {Fault::kInvalidLaunch, "kernel " + kernel.name + ": " + refusal};
  }
  Grid grid{*code_, kernel, shape, parameters, machine};
  grid.threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  grid.dynamic_base = static_cast<uint32_t>(RoundUp(kernel.shared_bytes, kernel.shared_alignment));
  grid.shared_bytes = shape.dynamic_shared == 0 ? kernel.shared_bytes : grid.dynamic_base + shape.dynamic_shared;
  try {
    Scheduler(grid).Run();
  } catch (const LaunchFault& fault) {
    return {fault.kind, fault.text};
  }
  return {};
}

}  // namespace callout::software_gpu::ptx
