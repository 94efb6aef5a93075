// SPDX-License-Identifier: Apache-2.0
//
// Where large records wait on their device. A program would stand still while its record goes to the host, which takes
// tens of times as long as a copy on the device: so it makes the latter, and a stream of our own brings it out.
// RingSpace says which bytes of a ring are taken: they are given back in the order in which they were taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cuda/driver/resources.h"

namespace callout::internal {

/// For one thread at a time.
class RingSpace {
 public:
  explicit RingSpace(uint64_t bytes) : bytes_(bytes) {}

  /// True if `bytes` are free next to each other. All of the ring is, when nothing is taken.
  bool Has(uint64_t bytes) const { return used() + Skipped(bytes) + bytes <= bytes_; }
  /// Where they begin. Has(bytes) is true.
  uint64_t Take(uint64_t bytes) {
    taken_ += Skipped(bytes) + bytes;
    return (taken_ - bytes) % bytes_;
  }

  /// The end of what was taken last, for Release.
  uint64_t end() const { return taken_; }
  /// Gives back everything before `end`.
  void Release(uint64_t end) {
    released_ = std::max(released_, end);
    if (used() == 0) taken_ = released_ = (taken_ + bytes_ - 1) / bytes_ * bytes_;  // from the beginning again
  }

  uint64_t used() const { return taken_ - released_; }
  uint64_t bytes() const { return bytes_; }

 private:
  // What is too short at the ring's end stays empty.
  uint64_t Skipped(uint64_t bytes) const {
    const uint64_t at = taken_ % bytes_;
    return at + bytes <= bytes_ ? 0 : bytes_ - at;
  }

  const uint64_t bytes_;
  uint64_t taken_ = 0;  // both only grow
  uint64_t released_ = 0;
};

/// Memory of a device for records to a worker. Immutable but for `space`, which is for one thread at a time.
struct SideStage {
  /// From as many bytes on, a record goes by here.
  static constexpr uint64_t kFrom = uint64_t{1} << 20;
  /// The records to a worker take no more of the device's memory.
  static constexpr uint64_t kMost = uint64_t{256} << 20;

  SideStage(cuda::DeviceMemory of_device, uint64_t bytes) : memory(std::move(of_device)), space(bytes) {}

  /// One of SizeFor(bytes), which is not 0. Null if the device has not the memory: then records go to the host on their
  /// program's stream. May wait for the device: not on a thread that launches.
  static std::shared_ptr<SideStage> New(const cuda::Device& device, uint64_t bytes);
  /// Bytes of a stage for records of `bytes`: room for two of them, or one if two are too much; 0 if one is.
  static uint64_t SizeFor(uint64_t bytes);

  const cuda::DeviceMemory memory;
  RingSpace space;
};

/// The stream that brings records out, one for both workers of a device, and the device's queue of it. Thread-safe.
class SideStream {
 public:
  static Result<std::unique_ptr<SideStream>> New(const cuda::Device& device);

  /// Queues what `queue` queues on the stream that it is given, behind everything that is queued on `program` by now.
  /// Nobody else queues meanwhile. The device's context is current.
  template <typename Function>
  Status Behind(cuda::CUstream program, Function&& queue) const {
    const MutexLock lock(mutex_);
    CALLOUT_RETURN_IF_ERROR(WaitFor(program));
    return queue(stream_.get());
  }

  /// Blocks until everything on it has run.
  Status Synchronize() const { return cuda::Synchronize(device_, stream_.get()); }

 private:
  explicit SideStream(const cuda::Device& device) : device_(device) {}
  Status WaitFor(cuda::CUstream program) const CALLOUT_REQUIRES(mutex_);

  const cuda::Device& device_;
  mutable Mutex mutex_;  // of the event between its record and its wait
  cuda::Stream stream_;
  cuda::Event event_;
};

}  // namespace callout::internal
