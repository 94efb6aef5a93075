// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/pinned_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "core/base/block_pool.h"
#include "core/base/cat.h"
#include "cuda/driver/resources.h"

namespace callout::internal::cuda {
namespace {

constexpr size_t kMinShift = 12;   // Memory is pinned in pages.
constexpr size_t kMarkBytes = 64;  // After each block.
constexpr std::chrono::seconds kPatienceWithTheReaper{1};

struct Pools {
  Mutex mutex;
  std::map<int, std::shared_ptr<PinnedPool>> by_ordinal CALLOUT_GUARDED_BY(mutex);
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
  std::shared_ptr<PinnedPool>& known = pools.by_ordinal[ordinal];
  if (known != nullptr) return known;
  CALLOUT_ASSIGN_OR_RETURN(const Driver* driver, Driver::Get());
  CALLOUT_ASSIGN_OR_RETURN(auto device, Device::Retain(*driver, ordinal));
  known = std::make_shared<PinnedPool>(std::move(device));
  return known;
}

void PinnedPool::ReleaseIdle() {
  Pools& pools = ThePools();
  {
    const MutexLock lock(pools.mutex);
    std::erase_if(pools.by_ordinal, [](const auto& pool) { return pool.second.use_count() <= 1; });
  }
  Reaper::Get().Flush();
}

PinnedPool::~PinnedPool() { Destroy(TakeAll()); }

size_t PinnedPool::Usable(size_t bytes) const {
  if (bytes > most_kept_) return (bytes + kMarkBytes - 1) / kMarkBytes * kMarkBytes;
  return SizeClassBytes(SizeClassFor(bytes, kMinShift), kMinShift);
}

template <typename IsGood>
bool PinnedPool::TakeKept(size_t usable, IsGood&& is_good, PinnedBlock* block) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](PinnedBlock& kept) { return kept.bytes == usable && is_good(kept); });
  if (found == kept_.end()) return false;
  *block = std::move(*found);
  kept_.erase(found);
  kept_bytes_ -= block->bytes;
  return true;
}

Result<PinnedBlock> PinnedPool::Take(size_t bytes) {
  const size_t usable = Usable(bytes);
  ContextScope current(device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  PinnedBlock block;
  if (TakeKept(usable, [this](PinnedBlock& kept) { return IsFree(kept); }, &block)) return block;
  return Pin(usable);
}

Result<PinnedBlock> PinnedPool::TakeBehind(size_t bytes, CUstream stream) {
  const size_t usable = Usable(bytes);
  PinnedBlock block;
  if (TakeKept(usable, [](const PinnedBlock& kept) { return !kept.in_use; }, &block)) return block;
  if (!TakeKept(usable, [](const PinnedBlock&) { return true; }, &block)) return Pin(usable);
  const CUresult ordered = device().driver().StreamWaitEvent(stream, block.event.get(), 0);
  if (ordered == CUDA_SUCCESS) return block;
  GiveBack(std::move(block));
  return device().Check(ordered, "cuStreamWaitEvent");
}

Result<PinnedBlock> PinnedPool::Pin(size_t usable) {
  Result<PinnedBlock> block = Allocate(usable);
  if (block.ok() || block.status().code() != StatusCode::kResourceExhausted) return block;
  Destroy(TakeAll());
  // Waits for at most a second, because freeing memory may wait for a device that waits for this thread.
  Reaper::Get().Flush(std::chrono::steady_clock::now() + kPatienceWithTheReaper);
  return Allocate(usable);
}

Result<PinnedBlock> PinnedPool::Allocate(size_t usable) {
  const AsideOfCaptures aside(device().driver());  // Other threads may be capturing.
  PinnedBlock block;
  CALLOUT_ASSIGN_OR_RETURN(block.memory, AllocatePinned(device(), usable + kMarkBytes));
  CALLOUT_ASSIGN_OR_RETURN(block.on_device, DeviceAddressOf(device(), block.memory));
  CALLOUT_ASSIGN_OR_RETURN(block.event, CreateEvent(device(), CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
  block.bytes = usable;
  *block.mark() = block.last_number;  // Reused memory may still have the mark of an earlier block.
  return block;
}

// Ignores errors: if the device is broken, the next call returns the error.
bool PinnedPool::IsFree(PinnedBlock& block) const {
  if (!block.in_use) return true;
  const AsideOfCaptures aside(device().driver());  // Other threads may be capturing.
  block.in_use = device().driver().EventQuery(block.event.get()) != CUDA_SUCCESS;
  return !block.in_use;
}

void PinnedPool::GiveBack(PinnedBlock block) {
  Blocks surplus;
  {
    const MutexLock lock(mutex_);
    // A block larger than `most_kept_` would evict all others, so it is kept only if its size is reserved.
    const bool fits = block.bytes <= most_kept_ || reserved_.contains(block.bytes);
    Blocks& to = fits ? kept_ : surplus;
    if (fits) kept_bytes_ += block.bytes;
    to.push_back(std::move(block));
    for (PinnedBlock& old : TakeSurplus()) surplus.push_back(std::move(old));
  }
  Destroy(std::move(surplus));
}

PinnedPool::Blocks PinnedPool::TakeSurplus() {
  size_t reserved = 0;
  for (auto size = reserved_.begin(); size != reserved_.end(); size = reserved_.upper_bound(*size)) reserved += *size;
  const size_t bound = std::max(most_kept_, reserved);
  Blocks surplus;
  for (auto block = kept_.begin(); kept_bytes_ > bound && block != kept_.end();) {
    if (IsLastReserved(*block)) {
      ++block;
      continue;
    }
    kept_bytes_ -= block->bytes;
    surplus.push_back(std::move(*block));
    block = kept_.erase(block);
  }
  return surplus;
}

bool PinnedPool::IsLastReserved(const PinnedBlock& block) const {
  const auto is_alike = [&](const PinnedBlock& kept) { return kept.bytes == block.bytes; };
  return reserved_.contains(block.bytes) && std::count_if(kept_.begin(), kept_.end(), is_alike) == 1;
}

Status PinnedPool::Prepare(size_t bytes) {
  const size_t usable = Usable(bytes);
  {
    const MutexLock lock(mutex_);
    if (std::any_of(kept_.begin(), kept_.end(), [&](const PinnedBlock& kept) { return kept.bytes == usable; })) {
      return OkStatus();
    }
  }
  CALLOUT_ASSIGN_OR_RETURN(PinnedBlock block, Pin(usable));
  GiveBack(std::move(block));
  return OkStatus();
}

void PinnedPool::Reserve(size_t bytes) {
  const MutexLock lock(mutex_);
  reserved_.insert(Usable(bytes));
}

void PinnedPool::Unreserve(size_t bytes) {
  Blocks surplus;
  {
    const MutexLock lock(mutex_);
    reserved_.erase(reserved_.find(Usable(bytes)));
    surplus = TakeSurplus();
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

// Makes the reaper wait for copies before it unpins their memory. On a broken device no copy runs any more, so errors
// are ignored.
void PinnedPool::Destroy(Blocks&& blocks) {
  const Blocks owned = std::move(blocks);
  for (const PinnedBlock& block : owned) {
    if (block.in_use) block.event.Finally<&DriverFunctions::EventSynchronize>();
  }
}

PinnedPools::~PinnedPools() {
  if (ProcessIsForkedChild()) return;  // In a forked child, another thread of the parent may have held the locks.
  const MutexLock lock(mutex_);
  for (const auto& [ordinal, of_device] : pools_) {
    for (const size_t bytes : of_device.reserved) of_device.pool->Unreserve(bytes);
  }
}

Result<PinnedPools::OfDevice*> PinnedPools::Find(int ordinal) {
  OfDevice& found = pools_[ordinal];
  if (found.pool == nullptr) {
    CALLOUT_ASSIGN_OR_RETURN(found.pool, PinnedPool::On(ordinal));
  }
  return &found;
}

Result<PinnedPool*> PinnedPools::On(int ordinal) {
  const MutexLock lock(mutex_);
  CALLOUT_ASSIGN_OR_RETURN(const OfDevice* const found, Find(ordinal));
  return found->pool.get();
}

Status PinnedPools::Prepare(int ordinal, size_t bytes) {
  PinnedPool* pool = nullptr;
  {
    const MutexLock lock(mutex_);
    CALLOUT_ASSIGN_OR_RETURN(OfDevice* const found, Find(ordinal));
    pool = found->pool.get();
    if (found->reserved.insert(bytes).second) pool->Reserve(bytes);
  }
  return pool->Prepare(bytes);
}

namespace {

// Small copies finish within this time. Sleeping and waking up would cost about ten microseconds more.
constexpr auto kSpinning = std::chrono::microseconds(50);
constexpr int kLooksBetweenClocks = 8;

// Returns true if `has_arrived` became true while this thread was polling.
template <typename HasArrived>
Result<bool> SpinUntil(HasArrived&& has_arrived) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinning;
  do {
    for (int i = 0; i < kLooksBetweenClocks; ++i) {
      CALLOUT_ASSIGN_OR_RETURN(const bool arrived, has_arrived());
      if (arrived) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

Result<Staging> Staging::Begin(PinnedPool& pool, CUstream stream, size_t bytes, std::string_view subject) {
  Result<PinnedBlock> block = pool.TakeBehind(bytes, stream);
  if (block.ok()) return Staging(pool, stream, subject, std::move(block).value());
  return block.status().WithMessage(
      Cat("no pinned memory for the ", bytes, " bytes of ", subject, ": ", block.status().message()));
}

Staging::~Staging() {
  if (pool_ == nullptr) return;
  if (copying_ && MayCallDriver()) {
    const ContextScope current(pool_->device());
    const Driver& driver = pool_->device().driver();
    block_.in_use = driver.EventRecord(block_.event.get(), stream_) == CUDA_SUCCESS;
    // Waits now if the event could not be recorded. If waiting fails, too, the device is broken and copies nothing any
    // more.
    if (!block_.in_use) static_cast<void>(Synchronize(pool_->device(), stream_));
  }
  pool_->GiveBack(std::move(block_));
}

Status Staging::ToHost(void* to, CUdeviceptr from, size_t bytes) {
  if (bytes == 0) return OkStatus();
  copying_ = true;
  return Check(pool_->device().driver().MemcpyDtoHAsync(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
}

Status Staging::ToDevice(CUdeviceptr to, const void* from, size_t bytes) {
  if (bytes == 0) return OkStatus();
  copying_ = true;
  return Check(pool_->device().driver().MemcpyHtoDAsync(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
}

Result<bool> Staging::Mark() {
  if (!pool_->writes_values()) return false;
  // The default write comes after a fence: a reader that sees the number sees the copies.
  const CUresult result = pool_->device().driver().StreamWriteValue32(
      stream_, block_.mark_on_device(), ++block_.last_number, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_ERROR_NOT_SUPPORTED) pool_->LearnThatNothingIsWritten();
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED) return result == CUDA_SUCCESS;
  return Check(result, "cuStreamWriteValue32");
}

Status Staging::Wait() {
  // Polls memory rather than the event, because reading memory takes none of the driver's locks, which other threads
  // may need.
  CALLOUT_ASSIGN_OR_RETURN(const bool is_marked, Mark());
  bool there = false;
  if (is_marked) {
    // Acquire: pairs with the stream's write.
    const auto has_arrived = [this]() -> Result<bool> {
      return std::atomic_ref<uint32_t>(*block_.mark()).load(std::memory_order_acquire) == block_.last_number;
    };
    CALLOUT_ASSIGN_OR_RETURN(there, SpinUntil(has_arrived));
  }
  if (!there) CALLOUT_RETURN_IF_ERROR(WaitByEvent(/*looks_first=*/!is_marked));
  copying_ = false;
  block_.in_use = false;
  return OkStatus();
}

Status Staging::WaitByEvent(bool looks_first) {
  const Driver& driver = pool_->device().driver();
  CUevent const event = block_.event.get();
  CALLOUT_RETURN_IF_ERROR(Check(driver.EventRecord(event, stream_), "cuEventRecord"));
  const AsideOfCaptures aside(driver);  // Other threads may be capturing.
  if (looks_first) {
    const auto has_arrived = [&]() -> Result<bool> {
      const CUresult result = driver.EventQuery(event);
      if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return result == CUDA_SUCCESS;
      return Check(result, "cuEventQuery");
    };
    CALLOUT_ASSIGN_OR_RETURN(const bool there, SpinUntil(has_arrived));
    if (there) return OkStatus();
  }
  return Check(driver.EventSynchronize(event), "cuEventSynchronize");
}

}  // namespace callout::internal::cuda
