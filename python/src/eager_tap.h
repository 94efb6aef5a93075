// SPDX-License-Identifier: Apache-2.0
//
// The site of a tap that none of Callout's handlers runs: its records come from Python or from JAX's own callbacks.
#pragma once

#include "module_bindings.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "borrowed_callback.h"
#include "callout/abi.h"
#include "core/delivery/delivery.h"

namespace callout::python {

/// An eager tap does not keep its callback alive: each Send gets the callback as an argument.
class EagerTap {
 public:
  /// `encoded`: the attributes of callout.v1.tap. Requires GIL.
  EagerTap(const CallbackHandle& like, const nanobind::dict& encoded);
  ~EagerTap();
  EagerTap(const EagerTap&) = delete;
  EagerTap& operator=(const EagerTap&) = delete;

  /// Returns whether to send the next record. Thread-safe. Requires GIL, and gives it up while a delivery thread that
  /// waits for the GIL takes it.
  bool Admit(int32_t device_ordinal, std::optional<int64_t> step);
  /// Sends a record that Admit admitted. Throws nanobind's python_error. Thread-safe. Requires GIL, and releases it
  /// where the record may wait or is large.
  void Send(const CallbackHandle& callback, std::span<const callout_buffer> buffers, int32_t device_ordinal,
            std::optional<int64_t> step);
  /// Sends the rows of a tap with rows, each as a record, if Admit admits it. `operands`: those of the tap, see
  /// core/delivery/tap_rows.h. Throws nanobind's python_error. Thread-safe. Requires GIL, as Send does.
  void SendRows(const CallbackHandle& callback, std::span<const callout_buffer> operands, int32_t device_ordinal);

 private:
  Status Push(internal::Sending sending, const std::shared_ptr<internal::Callback>& callback);

  const std::shared_ptr<BorrowedCallback> callback_;
  std::unique_ptr<internal::TapSite> site_;
};

}  // namespace callout::python
