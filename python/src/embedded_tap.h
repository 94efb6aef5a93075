// SPDX-License-Identifier: Apache-2.0
//
// A tap's function that a program carries as text. Python makes the function when the first record arrives.
#pragma once

#include "module_bindings.h"

#include <atomic>
#include <memory>
#include <string>

#include "core/callbacks/callback.h"

namespace callout::python {

/// Makes the callback by calling `maker` of the Python module `module` with `payload`, at the first record and not
/// earlier: runtimes look up names on any thread, some of them with locks held.
class EmbeddedTap final : public internal::Callback {
 public:
  struct Maker {
    const char* module;
    const char* function;
  };

  EmbeddedTap(std::string label, std::string payload, const Maker& maker)
      : Callback(std::move(label)), payload_(std::move(payload)), maker_(maker) {}

  internal::Worker worker() const override { return internal::Worker::kPython; }
  /// The source of the callback that Python made, once it exists.
  internal::LogSource log_source() const override { return log_source_.load(std::memory_order_relaxed); }
  Status Call(const callout_call& call) override;
  /// Requires GIL.
  Status Deliver(const internal::Record& record) override;

 private:
  std::shared_ptr<Callback> made();
  Result<std::shared_ptr<Callback>> Make();

  const std::string payload_;
  const Maker maker_;
  std::atomic<internal::LogSource> log_source_{internal::LogSource::kCore};
  nanobind::ft_mutex mutex_;
  std::shared_ptr<Callback> made_;  // guarded by the GIL, or by mutex_ where there is no GIL
};

}  // namespace callout::python
