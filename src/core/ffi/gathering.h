// SPDX-License-Identifier: Apache-2.0
//
// A call that is made once for all devices of a program in this process, on a CPU. The last device that arrives
// assembles the shards of all, makes the call, and copies the results to all. Each device passes its place among the
// devices as a last operand, u32[]. gathering.cc has the handlers of gathered calls and gathered taps.
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
#include "core/callbacks/rendezvous.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// The operands and results of the call that is made for all devices.
struct Gathered {
  std::span<const callout_buffer> args;
  std::span<const callout_buffer> results;
  int32_t device_ordinal = -1;  ///< The device that the callback gets.
};

/// Assembles the shards of all devices for the calls of one call site. Thread-safe after Decode.
class Gathering {
 public:
  Gathering() = default;
  ~Gathering() { delete memory_.load(std::memory_order_relaxed); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  /// Decodes the attributes. `name` is the callback's name in errors. Call once.
  Status Decode(const RendezvousAttributes& attributes, std::string name);

  /// Joins the rendezvous of the devices. The last device runs `make` with the whole values, and all devices return its
  /// status, at once or by the frame's future. `args` and `results` are this device's, without a token.
  Status Meet(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args, std::span<const callout_buffer> results,
              const std::function<Status(const Gathered&)>& make) const;

 private:
  /// An operand of which the devices have different parts.
  struct Spread {
    size_t operand;
    std::vector<int64_t> dims;                             // extents of the whole array
    uint64_t begin, size_bytes;                            // in the memory of all operands
    std::vector<std::pair<size_t, const int64_t*>> parts;  // devices with different parts, and where each part begins
  };
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::byte* begin() const;
  };

  Status Make(const Rendezvous& rendezvous, std::span<const callout_buffer> args,
              std::span<const callout_buffer> results, const std::function<Status(const Gathered&)>& make) const;
  Status PutTogether(const Rendezvous& rendezvous, const Memory& memory, std::span<callout_buffer> args) const;
  Status Plan(std::span<const callout_buffer> args) const;
  Status PlanOperand(size_t operand, const callout_buffer& arg, size_t column, size_t width) const;
  std::unique_ptr<Memory> TakeMemory() const;

  std::shared_ptr<RendezvousSite> place_;
  size_t caller_ = 0;
  std::vector<int64_t> shards_;

  mutable std::once_flag planned_;
  mutable Status unplanned_;  // the reason why there is no plan
  mutable std::vector<Spread> spread_;
  mutable uint64_t total_bytes_ = 0;
  mutable std::atomic<Memory*> memory_{nullptr};  // kept from the last call
};

}  // namespace callout::internal
