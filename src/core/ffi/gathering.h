// SPDX-License-Identifier: Apache-2.0
//
// A call that is made once for all devices of a program that are in this process, on a CPU: the last device that comes
// puts the shards of all together, makes the call, and gives the results to all. Each comes with its place among the
// devices as a last operand, u32[].
// gathering.cc has the handlers of gathered calls and gathered taps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/attributes/site_attributes.h"
#include "core/callbacks/meeting.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// What the call is made with.
struct Gathered {
  std::span<const callout_buffer> args;
  std::span<const callout_buffer> results;
  int32_t device_ordinal = -1;  ///< The device that is said to make it.
};

/// The gathering of one call site. Thread-safe once it was decoded.
class Gathering {
 public:
  Gathering() = default;
  ~Gathering() { delete memory_.load(std::memory_order_relaxed); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  /// `name`: what errors call it. Call once.
  Status Decode(const MeetingAttributes& said, std::string name);

  /// Meets the other devices. Whichever comes last runs `make` with the whole values, and all return what that returns,
  /// now, or by the frame's future. `args` and `results` are those of this device, without a token.
  Status Meet(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args, std::span<const callout_buffer> results,
              const std::function<Status(const Gathered&)>& make) const;

 private:
  /// An operand that the devices have parts of.
  struct Spread {
    size_t operand;
    std::vector<int64_t> dims;                             // of the whole
    uint64_t begin, size_bytes;                            // in the memory for all
    std::vector<std::pair<size_t, const int64_t*>> parts;  // devices that have different ones, and where these begin
  };
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::byte* begin() const;
  };

  Status Make(const Meeting& meeting, std::span<const callout_buffer> args, std::span<const callout_buffer> results,
              const std::function<Status(const Gathered&)>& make) const;
  Status PutTogether(const Meeting& meeting, const Memory& memory, std::span<callout_buffer> args) const;
  Status Plan(std::span<const callout_buffer> args) const;
  Status PlanOperand(size_t operand, const callout_buffer& arg, size_t column, size_t width) const;
  std::unique_ptr<Memory> TakeMemory() const;

  std::shared_ptr<MeetingPlace> place_;
  size_t caller_ = 0;
  std::vector<int64_t> shards_;

  mutable std::once_flag planned_;
  mutable Status unplanned_;  // why there is no plan
  mutable std::vector<Spread> spread_;
  mutable uint64_t total_bytes_ = 0;
  mutable std::atomic<Memory*> memory_{nullptr};  // of the last call
};

}  // namespace callout::internal
