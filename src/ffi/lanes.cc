// SPDX-License-Identifier: Apache-2.0
#include "ffi/lanes.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "base/thread_annotations.h"
#include "callout/dtype.h"
#include "frame/thread_pool.h"
#include "registry/invoke.h"

namespace callout::internal {
namespace {

// Beyond what programs nest; JAX arrays have at most 32 or 64 dimensions.
constexpr size_t kMaxExtents = 62;
// No program runs to the end of so many; sums of a few times as many do not overflow.
constexpr int64_t kMaxLanes = int64_t{1} << 53;
// Several claims a thread even out lanes of different length; more would cost.
constexpr int64_t kClaimsPerThread = 8;

// One buffer of the whole call, and how to get to a lane's part of it.
struct Operand {
  callout_buffer part;           // of lane 0
  std::vector<uint64_t> stride;  // bytes, one an extent of the batch; 0 where the operand does not have it
};

Result<Operand> Split(const callout_buffer& whole, std::span<const int64_t> extents, int64_t mask) {
  if (BitWidth(static_cast<DType>(whole.dtype)) % 8 != 0) {
    return InvalidArgument("callout: lanes of an element type of less than a byte");
  }
  Operand operand = {whole, std::vector<uint64_t>(extents.size())};
  uint32_t rank = 0;
  uint64_t lanes = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (rank >= whole.rank || whole.dims[rank] != extents[i]) {
      return InvalidArgument("callout: an operand does not have the extents of the batch that `lane_masks` tells");
    }
    lanes *= static_cast<uint64_t>(extents[i]);
    ++rank;
  }
  operand.part.rank -= rank;
  operand.part.dims += rank;
  if (lanes > 0) operand.part.size_bytes /= lanes;
  uint64_t stride = operand.part.size_bytes;
  for (size_t i = extents.size(); i-- > 0;) {
    if ((mask >> i & 1) == 0) continue;
    operand.stride[i] = stride;
    stride *= static_cast<uint64_t>(extents[i]);
  }
  return operand;
}

}  // namespace

// Shared by the threads that run the lanes. A thread that comes when all lanes are claimed looks at nothing but
// `next_`: what the others refer to is the handler's, which may have returned by then.
class LaneCall {
 public:
  LaneCall(const Lanes& lanes, Callback& callback, const Aliases& aliases, const callout_call& call)
      : extents_(lanes.extents_), callback_(callback), aliases_(aliases), call_(call) {
    count_ = 1;
    for (const int64_t extent : extents_) count_ *= extent;
  }

  Status Prepare(const std::vector<int64_t>& masks) {
    if (masks.size() != call_.num_args) {
      return InvalidArgument("callout: `lane_masks` is for " + std::to_string(masks.size()) +
                             " operands, the call has " + std::to_string(call_.num_args));
    }
    for (uint32_t i = 0; i < call_.num_args; ++i) CALLOUT_RETURN_IF_ERROR(Add(call_.args[i], masks[i]));
    for (uint32_t i = 0; i < call_.num_results; ++i) CALLOUT_RETURN_IF_ERROR(Add(call_.results[i], -1));
    if (count_ == 0) return OkStatus();  // no lane whose operands could be checked
    std::vector<callout_buffer> parts(operands_.size());
    return aliases_.Check(CallOf(parts.data(), 0));
  }

  int64_t count() const { return count_; }
  /// Makes room for all threads, which may run out of no memory.
  void SetThreads(int64_t threads) {
    claim_ = std::max<int64_t>(1, count_ / (threads * kClaimsPerThread));
    parts_.resize(static_cast<size_t>(threads) * operands_.size());
  }

  /// Runs lanes until none is left. Each of the threads has its own index.
  void Help(int64_t thread) noexcept {
    for (;;) {
      const int64_t begin = next_.fetch_add(claim_, std::memory_order_relaxed);
      if (begin >= count_) return;
      const int64_t end = std::min(begin + claim_, count_);
      Run(parts_.data() + static_cast<size_t>(thread) * operands_.size(), begin, end);
      // The release hands what the lanes wrote to whoever waits.
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
    if (error_.ok()) return InternalError("callout: out of memory");
    return Status(error_.code(), std::string(error_.message()) + " (lane " + std::to_string(lane) + " of " +
                                     std::to_string(count_) + ")");
  }

 private:
  Status Add(const callout_buffer& whole, int64_t mask) {
    CALLOUT_ASSIGN_OR_RETURN(Operand operand, Split(whole, extents_, mask));
    operands_.push_back(std::move(operand));
    return OkStatus();
  }

  /// The call of one lane. Its buffers are in `parts`.
  callout_call CallOf(callout_buffer* parts, int64_t lane) const {
    callout_call call = call_;
    call.args = parts;
    call.results = parts + call_.num_args;
    for (size_t i = 0; i < operands_.size(); ++i) {
      parts[i] = operands_[i].part;
      if (parts[i].size_bytes > 0) parts[i].data = static_cast<char*>(parts[i].data) + Offset(operands_[i], lane);
    }
    return call;
  }

  void Run(callout_buffer* parts, int64_t begin, int64_t end) {
    for (int64_t lane = begin; lane < end && lane < first_failed_.load(std::memory_order_relaxed); ++lane) {
      const callout_call call = CallOf(parts, lane);
      aliases_.Apply(call);
      try {
        if (Status status = Invoke(callback_, call); !status.ok()) Fail(lane, std::move(status));
      } catch (...) {
        Fail(lane, OkStatus());  // no memory for the error's text
      }
    }
  }

  uint64_t Offset(const Operand& operand, int64_t lane) const {
    uint64_t offset = 0;
    for (size_t i = extents_.size(); i-- > 0;) {
      offset += operand.stride[i] * static_cast<uint64_t>(lane % extents_[i]);
      lane /= extents_[i];
    }
    return offset;
  }

  void Fail(int64_t lane, Status status) {
    MutexLock lock(mutex_);
    if (lane >= first_failed_.load(std::memory_order_relaxed)) return;
    first_failed_.store(lane, std::memory_order_relaxed);
    error_ = std::move(status);
  }

  const std::span<const int64_t> extents_;
  Callback& callback_;
  const Aliases& aliases_;
  const callout_call call_;
  std::vector<Operand> operands_;
  std::vector<callout_buffer> parts_;  // as many a thread as there are operands
  int64_t count_ = 0;
  int64_t claim_ = 1;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> done_{0};
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first_failed_{kNone};
  Mutex mutex_;
  Status error_ CALLOUT_GUARDED_BY(mutex_);
};

Status Lanes::Decode(const XLA_FFI_Attrs& attrs) {
  CALLOUT_ASSIGN_OR_RETURN(const std::span<const int64_t> extents, Int64ArrayAttribute(attrs, "lane_dims"));
  CALLOUT_ASSIGN_OR_RETURN(const std::span<const int64_t> masks, Int64ArrayAttribute(attrs, "lane_masks"));
  if (extents.size() > kMaxExtents) return InvalidArgument("callout: too many batch dimensions");
  int64_t lanes = 1;
  for (const int64_t extent : extents) {
    if (extent < 0 || (extent > 0 && lanes > kMaxLanes / extent)) {
      return InvalidArgument("callout: attribute 'lane_dims' has the extent " + std::to_string(extent) +
                             ", with which no batch can be");
    }
    if (extent > 0) lanes *= extent;
  }
  extents_.assign(extents.begin(), extents.end());
  masks_.assign(masks.begin(), masks.end());
  return OkStatus();
}

Status Lanes::Call(XLA_FFI_CallFrame* frame, Callback& callback, const Aliases& aliases,
                   const callout_call& call) const {
  const auto shared = std::make_shared<LaneCall>(*this, callback, aliases, call);
  CALLOUT_RETURN_IF_ERROR(shared->Prepare(masks_));
  if (shared->count() == 0) return OkStatus();
  const int64_t threads = std::max<int64_t>(1, std::min(PoolThreads(frame), shared->count()));
  shared->SetThreads(threads);
  try {
    for (int64_t i = 1; i < threads; ++i) {
      if (!ScheduleOnPool(frame, [shared, i] { shared->Help(i); }).ok()) break;  // fewer threads do it, too
    }
  } catch (const std::bad_alloc&) {  // likewise
  }
  shared->Help(0);
  return shared->Wait();
}

}  // namespace callout::internal
