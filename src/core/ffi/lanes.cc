// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/lanes.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/invoke.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {
namespace {

// The largest number of a batch's extents, of which each nested vmap adds one. Programs never nest so many, because JAX
// arrays have at most 32 or 64 dimensions.
constexpr size_t kMaxExtents = 62;
// The largest number of lanes of a batch. No program could finish so many, and sums of a few such numbers do not
// overflow.
constexpr int64_t kMaxLanes = int64_t{1} << 53;
// How often a thread claims a group of lanes, on average. Several claims balance lanes that take different times; more
// claims would cost more.
constexpr int64_t kClaimsPerThread = 8;

}  // namespace

Result<LaneParts> LaneParts::Of(const Lanes& lanes, const callout_call& whole) {
  const std::span<const int64_t> masks = lanes.masks();
  if (masks.size() != whole.num_args) {
    return InvalidArgument(
        Cat("callout: `lane_masks` is for ", masks.size(), " operands, the call has ", whole.num_args));
  }
  LaneParts parts(lanes.extents(), whole);
  for (uint32_t i = 0; i < whole.num_args; ++i) CALLOUT_RETURN_IF_ERROR(parts.Add(whole.args[i], masks[i]));
  for (uint32_t i = 0; i < whole.num_results; ++i) CALLOUT_RETURN_IF_ERROR(parts.Add(whole.results[i], -1));
  return parts;
}

Status LaneParts::Add(const callout_buffer& whole, int64_t mask) {
  if (BitWidth(static_cast<DType>(whole.dtype)) % 8 != 0) {
    return InvalidArgument("callout: lanes of an element type of less than a byte");
  }
  Operand operand = {whole, std::vector<uint64_t>(extents_.size())};
  uint32_t rank = 0;
  uint64_t lanes = 1;
  for (size_t i = 0; i < extents_.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (rank >= whole.rank || whole.dims[rank] != extents_[i]) {
      return InvalidArgument("callout: an operand does not have the extents of the batch that `lane_masks` tells");
    }
    lanes *= static_cast<uint64_t>(extents_[i]);
    ++rank;
  }
  operand.part.rank -= rank;
  operand.part.dims += rank;
  if (lanes > 0) operand.part.size_bytes /= lanes;
  uint64_t stride = operand.part.size_bytes;
  for (size_t i = extents_.size(); i-- > 0;) {
    if ((mask >> i & 1) == 0) continue;
    operand.stride[i] = stride;
    stride *= static_cast<uint64_t>(extents_[i]);
  }
  operands_.push_back(std::move(operand));
  return OkStatus();
}

uint64_t LaneParts::Offset(const Operand& operand, int64_t lane) const {
  uint64_t offset = 0;
  for (size_t i = extents_.size(); i-- > 0;) {
    offset += operand.stride[i] * static_cast<uint64_t>(lane % extents_[i]);
    lane /= extents_[i];
  }
  return offset;
}

callout_call LaneParts::Call(int64_t lane, callout_buffer* parts) const {
  callout_call call = whole_;
  call.args = parts;
  call.results = parts + call.num_args;
  for (size_t i = 0; i < operands_.size(); ++i) {
    parts[i] = operands_[i].part;
    if (parts[i].size_bytes > 0) parts[i].data = static_cast<char*>(parts[i].data) + Offset(operands_[i], lane);
  }
  return call;
}

int64_t Lanes::count() const {
  int64_t count = 1;
  for (const int64_t extent : extents_) count *= extent;
  return count;
}

// State that the threads of a batch share. A thread that comes when all lanes are claimed reads nothing but `next_`,
// because the references lead into the handler's frame, which may have returned by then.
class LaneCall {
 public:
  LaneCall(LaneParts lanes, int64_t count, Callback& callback, const Aliases& aliases)
      : lanes_(std::move(lanes)), callback_(callback), aliases_(aliases), count_(count) {}

  Status Check() const {
    if (count_ == 0) return OkStatus();  // no lane has operands to check
    std::vector<callout_buffer> parts(lanes_.size());
    return aliases_.Check(lanes_.Call(0, parts.data()));
  }

  int64_t count() const { return count_; }
  /// Allocates the parts of all threads, so that Help needs no memory.
  void SetThreads(int64_t threads) {
    claim_ = std::max<int64_t>(1, count_ / (threads * kClaimsPerThread));
    parts_.resize(static_cast<size_t>(threads) * lanes_.size());
  }

  /// Runs lanes until none is left. Each thread has its own index.
  void Help(int64_t thread) noexcept {
    for (;;) {
      const int64_t begin = next_.fetch_add(claim_, std::memory_order_relaxed);
      if (begin >= count_) return;
      const int64_t end = std::min(begin + claim_, count_);
      Run(parts_.data() + static_cast<size_t>(thread) * lanes_.size(), begin, end);
      // The release passes the lanes' writes to the waiter, and pairs with the acquire in Wait.
      if (done_.fetch_add(end - begin, std::memory_order_acq_rel) + end - begin == count_) done_.notify_all();
    }
  }

  Status Wait() {
    for (int64_t done = done_.load(std::memory_order_acquire); done < count_;
         done = done_.load(std::memory_order_acquire)) {
      done_.wait(done, std::memory_order_acquire);
    }
    const int64_t lane = first_failed_.load(std::memory_order_relaxed);
    if (lane == kNone) return OkStatus();
    MutexLock lock(mutex_);
    if (error_.ok()) return {StatusCode::kResourceExhausted, "callout: out of memory", StatusKind::kMemory};
    return error_.WithMessage(Cat(error_.message(), " (lane ", lane, " of ", count_, ")"));
  }

 private:
  void Run(callout_buffer* parts, int64_t begin, int64_t end) {
    for (int64_t lane = begin; lane < end && lane < first_failed_.load(std::memory_order_relaxed); ++lane) {
      const callout_call call = lanes_.Call(lane, parts);
      aliases_.Apply(call);
      try {
        if (Status status = Invoke(callback_, call); !status.ok()) Fail(lane, std::move(status));
      } catch (...) {
        Fail(lane, OkStatus());  // no memory for the error's text
      }
    }
  }

  void Fail(int64_t lane, Status status) {
    MutexLock lock(mutex_);
    if (lane >= first_failed_.load(std::memory_order_relaxed)) return;
    first_failed_.store(lane, std::memory_order_relaxed);
    error_ = std::move(status);
  }

  const LaneParts lanes_;
  Callback& callback_;
  const Aliases& aliases_;
  const int64_t count_;
  std::vector<callout_buffer> parts_;  // for each thread, the buffers of one lane
  int64_t claim_ = 1;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> done_{0};
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first_failed_{kNone};
  Mutex mutex_;
  Status error_ CALLOUT_GUARDED_BY(mutex_);
};

Result<Lanes> Lanes::Of(const LaneAttributes& attributes) {
  if (attributes.lane_dims.size() > kMaxExtents) return InvalidArgument("callout: too many batch dimensions");
  int64_t count = 1;
  for (const int64_t extent : attributes.lane_dims) {
    if (extent < 0 || (extent > 0 && count > kMaxLanes / extent)) {
      return InvalidArgument(
          Cat("callout: attribute 'lane_dims' has the extent ", extent, ", with which no batch can be"));
    }
    if (extent > 0) count *= extent;
  }
  Lanes lanes;
  lanes.extents_.assign(attributes.lane_dims.begin(), attributes.lane_dims.end());
  lanes.masks_.assign(attributes.lane_masks.begin(), attributes.lane_masks.end());
  return lanes;
}

Status Lanes::Call(XLA_FFI_CallFrame* frame, Callback& callback, const Aliases& aliases,
                   const callout_call& call) const {
  CALLOUT_ASSIGN_OR_RETURN(LaneParts lanes, LaneParts::Of(*this, call));
  const auto shared = std::make_shared<LaneCall>(std::move(lanes), count(), callback, aliases);
  CALLOUT_RETURN_IF_ERROR(shared->Check());
  if (shared->count() == 0) return OkStatus();
  const int64_t threads = std::max<int64_t>(1, std::min(PoolThreads(frame), shared->count()));
  shared->SetThreads(threads);
  try {
    for (int64_t i = 1; i < threads; ++i) {
      if (!ScheduleOnPool(frame, [shared, i] { shared->Help(i); }).ok()) break;  // fewer threads run all lanes, too
    }
  } catch (const std::bad_alloc&) {  // fewer threads run all lanes, too
  }
  shared->Help(0);
  return shared->Wait();
}

}  // namespace callout::internal
