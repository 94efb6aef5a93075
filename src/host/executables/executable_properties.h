// SPDX-License-Identifier: Apache-2.0
//
// The types that a program takes, for a look at what it is given: plugins compare sizes in bytes only.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "callout/pjrt/executable.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Read from the program when it first runs. Thread-safe.
class ArgumentTypes {
 public:
  /// InvalidArgument for another number of arguments, and for one of another type. Ok where `executable` does not tell.
  Status Check(std::span<const std::span<const pjrt::Buffer* const>> arguments,
               const pjrt::LoadedExecutable& executable, const PjrtApi& api);
  /// InvalidArgument for the number of no argument, and of one that the program cannot take over (which is not known
  /// where `executable` does not tell).
  Status CheckDonated(std::span<const int64_t> donated, size_t num_arguments, const pjrt::LoadedExecutable& executable);
  /// False where `executable` does not tell.
  bool AreKnown(const pjrt::LoadedExecutable& executable);
  /// True if the program can take over none of its arguments; false as long as Check was not called, or does not know.
  bool KeepsAll() const {
    return output_tags_.load(std::memory_order_acquire) != nullptr && donatable_.empty();  // pairs with Read's release
  }
  /// The tag (host/pjrt/values.h) of an output; 0 as long as Check was not called, or does not know.
  uint64_t OutputTag(size_t output) const {
    const std::vector<uint64_t>* tags = output_tags_.load(std::memory_order_acquire);  // pairs with Read's release
    return tags != nullptr && output < tags->size() ? (*tags)[output] : 0;
  }

 private:
  void Read(const pjrt::LoadedExecutable& executable);

  std::once_flag read_;
  bool known_ = false;
  std::vector<pjrt::ArrayType> inputs_;
  std::vector<uint64_t> input_tags_;
  std::vector<uint64_t> outputs_;
  std::vector<int64_t> donatable_;
  std::atomic<const std::vector<uint64_t>*> output_tags_{nullptr};  // &outputs_ once they are known
};

}  // namespace callout::internal
