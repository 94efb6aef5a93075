// SPDX-License-Identifier: Apache-2.0
//
// The types that a program takes, to check its arguments: plugins compare only sizes in bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "callout/pjrt/executable.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// The types are read from the program when it first runs. Thread-safe.
class ArgumentTypes {
 public:
  /// InvalidArgument for a wrong number of arguments, and for an argument of a wrong type. Ok if the types of
  /// `executable` are not known.
  Status Check(std::span<const std::span<const pjrt::Buffer* const>> arguments,
               const pjrt::LoadedExecutable& executable, const PjrtApi& api);
  /// InvalidArgument for an index that no argument has, and for an argument that the program cannot take over. Which
  /// arguments it can take over is not known, and not checked, if the types of `executable` are not known.
  Status CheckDonated(std::span<const int64_t> donated, size_t num_arguments, const pjrt::LoadedExecutable& executable);
  /// False if the plugin does not report the types of `executable`.
  bool AreKnown(const pjrt::LoadedExecutable& executable);
  /// True if the program can take over none of its arguments. False before the first Check, and if the types are not
  /// known.
  bool KeepsAll() const {
    return output_tags_.load(std::memory_order_acquire) != nullptr && donatable_.empty();  // pairs with Read's release
  }
  /// Returns the tag (host/pjrt/values.h) of an output; 0 before the first Check, and if the types are not known.
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
