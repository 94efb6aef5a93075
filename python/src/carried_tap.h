// SPDX-License-Identifier: Apache-2.0
//
// A tap's function that a program carries as text, made by Python when the first record comes.
#pragma once

#include "module_bindings.h"

#include <atomic>
#include <memory>
#include <string>

#include "core/callbacks/callback.h"

namespace callout::python {

/// Calls `maker` of the Python module `module` with `payload`, for the callback to deliver to. Runtimes look names up
/// on any thread, some of them with locks: so not before it is needed.
class CarriedTap final : public internal::Callback {
 public:
  struct Maker {
    const char* module;
    const char* function;
  };

  CarriedTap(std::string label, std::string payload, const Maker& maker)
      : Callback(std::move(label)), payload_(std::move(payload)), maker_(maker) {}

  internal::Worker worker() const override { return internal::Worker::kPython; }
  /// That of what Python made, once it has made it.
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
  std::shared_ptr<Callback> made_;  // guarded by the GIL, or where there is none by mutex_
};

}  // namespace callout::python
