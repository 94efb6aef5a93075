// SPDX-License-Identifier: Apache-2.0
//
// Staging memory on a device for large records. A copy to the host takes tens of times as long as one on the device,
// and would stop the program meanwhile. So the program copies the record on the device, and a stream of Callout's own
// brings it to the host. RingSpace manages the bytes of a ring, which are released in the order in which they were
// taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cuda/driver/resources.h"

namespace callout::internal {

/// Only one thread at a time may use an object of this class.
class RingSpace {
 public:
  explicit RingSpace(uint64_t bytes) : bytes_(bytes) {}

  /// Returns whether `bytes` adjacent bytes are free. If nothing is taken, the whole ring is free.
  bool Has(uint64_t bytes) const { return used() + Skipped(bytes) + bytes <= bytes_; }
  /// Takes `bytes` bytes, and returns their position. Requires Has(bytes).
  uint64_t Take(uint64_t bytes) {
    taken_ += Skipped(bytes) + bytes;
    return (taken_ - bytes) % bytes_;
  }

  /// Returns the end of the bytes that Take took last, as the argument of a later Release.
  uint64_t end() const { return taken_; }
  /// Releases everything before `end`.
  void Release(uint64_t end) {
    released_ = std::max(released_, end);
    if (used() == 0) taken_ = released_ = (taken_ + bytes_ - 1) / bytes_ * bytes_;  // Starts over at the beginning.
  }

  uint64_t used() const { return taken_ - released_; }
  uint64_t bytes() const { return bytes_; }

 private:
  // Skips the bytes at the ring's end if they are too few.
  uint64_t Skipped(uint64_t bytes) const {
    const uint64_t at = taken_ % bytes_;
    return at + bytes <= bytes_ ? 0 : bytes_ - at;
  }

  const uint64_t bytes_;
  uint64_t taken_ = 0;  // Both numbers only grow.
  uint64_t released_ = 0;
};

/// Device memory for the records to one worker. Immutable except for `space`, which is for one thread at a time.
struct SideStage {
  /// The smallest record that uses the stage.
  static constexpr uint64_t kFrom = uint64_t{1} << 20;
  /// The most device memory for the records to one worker.
  static constexpr uint64_t kMost = uint64_t{256} << 20;

  SideStage(cuda::DeviceMemory of_device, uint64_t bytes) : memory(std::move(of_device)), space(bytes) {}

  /// Allocates a stage of SizeFor(bytes) bytes, which must not be 0. Returns null if the device lacks the memory:
  /// records then go to the host on their program's stream. May wait for the device, so must not be called on a thread
  /// that launches.
  static std::shared_ptr<SideStage> New(const cuda::Device& device, uint64_t bytes);
  /// Returns the size of a stage for records of `bytes` bytes: room for two of them, or for one if two would exceed
  /// kMost; 0 if the records do not use a stage.
  static uint64_t SizeFor(uint64_t bytes);

  const cuda::DeviceMemory memory;
  RingSpace space;
};

/// The stream that copies staged records to the host, one for both workers of a device. Thread-safe.
class SideStream {
 public:
  static Result<std::unique_ptr<SideStream>> New(const cuda::Device& device);

  /// Calls `queue(stream)`, whose work runs after everything that is queued on `program` by now. Other calls of this
  /// function wait meanwhile. Requires that the device's context is current.
  template <typename Function>
  Status Behind(cuda::CUstream program, Function&& queue) const {
    const MutexLock lock(mutex_);
    CALLOUT_RETURN_IF_ERROR(WaitFor(program));
    return queue(stream_.get());
  }

  /// Blocks until everything on the stream has run.
  Status Synchronize() const { return cuda::Synchronize(device_, stream_.get()); }

 private:
  explicit SideStream(const cuda::Device& device) : device_(device) {}
  Status WaitFor(cuda::CUstream program) const CALLOUT_REQUIRES(mutex_);

  const cuda::Device& device_;
  mutable Mutex mutex_;  // Guards the event between its record and its wait.
  cuda::Stream stream_;
  cuda::Event event_;
};

}  // namespace callout::internal
