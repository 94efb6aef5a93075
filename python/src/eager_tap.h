// SPDX-License-Identifier: Apache-2.0
//
// The site of a tap that no handler of ours runs: records come from Python, or from JAX's own callbacks.
#pragma once

#include "module_bindings.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "callout/abi.h"
#include "core/delivery/delivery.h"
#include "lent_callback.h"

namespace callout::python {

/// Does not keep alive what it is for: whoever taps brings that along.
class EagerTap {
 public:
  /// `encoded`: attributes of callout.v1.tap. Requires GIL.
  EagerTap(const CallbackHandle& like, const nanobind::dict& encoded);
  ~EagerTap();
  EagerTap(const EagerTap&) = delete;
  EagerTap& operator=(const EagerTap&) = delete;

  /// Requires GIL, which it gives up while a delivery thread that waits for it takes it. Thread-safe.
  bool Admit(int32_t device_ordinal, std::optional<int64_t> step);
  /// A record that was admitted. Throws nanobind's python_error. Thread-safe. Requires GIL, which it lets go of where
  /// it may wait, or copies much.
  void Send(const CallbackHandle& callback, std::span<const callout_buffer> buffers, int32_t device_ordinal,
            std::optional<int64_t> step);

 private:
  Status Push(internal::Sending sending, const std::shared_ptr<internal::Callback>& callback);

  const std::shared_ptr<LentCallback> callback_;
  std::unique_ptr<internal::TapSite> site_;
};

}  // namespace callout::python
