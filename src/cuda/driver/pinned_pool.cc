// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/pinned_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/size_class.h"
#include "cuda/driver/resources.h"

namespace callout::internal::cuda {
namespace {

constexpr size_t kMinShift = 12;  // memory is pinned in pages

struct Pools {
  Mutex mutex;
  std::map<int, std::weak_ptr<PinnedPool>> by_ordinal CALLOUT_GUARDED_BY(mutex);
};

// Leaked: programs run until the process ends.
Pools& ThePools() {
  static auto* const pools = new Pools;
  return *pools;
}

}  // namespace

Result<std::shared_ptr<PinnedPool>> PinnedPool::On(int ordinal) {
  Pools& pools = ThePools();
  const MutexLock lock(pools.mutex);
  std::weak_ptr<PinnedPool>& known = pools.by_ordinal[ordinal];
  if (auto pool = known.lock()) return pool;
  CALLOUT_ASSIGN_OR_RETURN(const Driver* driver, Driver::Get());
  CALLOUT_ASSIGN_OR_RETURN(auto device, Device::Retain(*driver, ordinal));
  auto pool = std::make_shared<PinnedPool>(std::move(device));
  known = pool;
  return pool;
}

PinnedPool::~PinnedPool() { Destroy(TakeAll()); }

Result<PinnedBlock> PinnedPool::Take(size_t bytes) {
  const size_t usable = bytes > most_kept_ ? bytes : SizeClassBytes(SizeClassFor(bytes, kMinShift), kMinShift);
  ContextScope current(device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [&](PinnedBlock& block) { return block.bytes == usable && IsFree(block); });
    if (found != kept_.end()) {
      PinnedBlock block = std::move(*found);
      kept_.erase(found);
      kept_bytes_ -= block.bytes;
      return block;
    }
  }
  Result<PinnedBlock> block = Allocate(usable);
  if (block.ok() || block.status().code() != StatusCode::kResourceExhausted) return block;
  Destroy(TakeAll());
  return Allocate(usable);
}

Result<PinnedBlock> PinnedPool::Allocate(size_t bytes) {
  PinnedBlock block;
  CALLOUT_ASSIGN_OR_RETURN(block.memory, AllocatePinned(device(), bytes));
  CALLOUT_ASSIGN_OR_RETURN(block.event, CreateEvent(device(), CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
  block.bytes = bytes;
  return block;
}

// What a broken device says is told by whatever is called next.
bool PinnedPool::IsFree(PinnedBlock& block) const {
  if (block.in_use) block.in_use = device().driver().EventQuery(block.event.get()) != CUDA_SUCCESS;
  return !block.in_use;
}

void PinnedPool::GiveBack(PinnedBlock block) {
  Blocks surplus;
  if (block.bytes > most_kept_) {
    surplus.push_back(std::move(block));
  } else {
    const MutexLock lock(mutex_);
    kept_bytes_ += block.bytes;
    kept_.push_back(std::move(block));
    while (kept_bytes_ > most_kept_) {
      kept_bytes_ -= kept_.front().bytes;
      surplus.push_back(std::move(kept_.front()));
      kept_.pop_front();
    }
  }
  Destroy(std::move(surplus));
}

size_t PinnedPool::kept_bytes() const {
  const MutexLock lock(mutex_);
  return kept_bytes_;
}

PinnedPool::Blocks PinnedPool::TakeAll() {
  const MutexLock lock(mutex_);
  kept_bytes_ = 0;
  return std::exchange(kept_, {});
}

// Memory that a copy uses is not unpinned. On a broken device there are no copies any more.
void PinnedPool::Destroy(Blocks&& blocks) const {
  const Blocks owned = std::move(blocks);
  if (owned.empty() || !MayCallDriver()) return;
  const ContextScope current(device());
  for (const PinnedBlock& block : owned) {
    if (block.in_use) static_cast<void>(device().driver().EventSynchronize(block.event.get()));
  }
}

Result<PinnedPool*> PinnedPools::On(int ordinal) {
  const MutexLock lock(mutex_);
  std::shared_ptr<PinnedPool>& pool = pools_[ordinal];
  if (pool == nullptr) {
    CALLOUT_ASSIGN_OR_RETURN(pool, PinnedPool::On(ordinal));
  }
  return pool.get();
}

}  // namespace callout::internal::cuda
