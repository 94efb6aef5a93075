// SPDX-License-Identifier: Apache-2.0
//
// A callback that passes records on to another callback, to which it refers only while records are under way. Tap sites
// outside of programs have such a callback, so that they do not keep the tapped functions and sinks alive.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"

namespace callout::python {

class BorrowedCallback final : public internal::Callback, public internal::Inspector {
 public:
  /// Stands for callbacks like `like`: it has the same label, worker and logger, and inspects if `like` does.
  explicit BorrowedCallback(internal::Callback& like);

  internal::Worker worker() const override { return worker_; }
  internal::LogSource log_source() const override { return log_source_; }
  /// Always fails: this callback takes taps only.
  Status Call(const callout_call& call) override;
  Status Deliver(const internal::Record& record) override;
  Status Flush() override;
  internal::Inspector* inspector() override { return inspects_ ? this : nullptr; }
  Result<Send> Inspect(const internal::Record& record) override;

  /// Keeps `callback` for a record that is about to be sent. Records already under way keep the callback that they
  /// have. Thread-safe.
  void Acquire(const std::shared_ptr<internal::Callback>& callback);
  /// Takes back an Acquire whose record was not sent. Thread-safe.
  void Release();

 private:
  std::shared_ptr<internal::Callback> borrowed();
  std::shared_ptr<internal::Callback> LetGoIfIdle() CALLOUT_REQUIRES(mutex_);

  const internal::Worker worker_;
  const internal::LogSource log_source_;
  const bool inspects_;
  internal::Mutex mutex_;
  std::shared_ptr<internal::Callback> borrowed_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t under_way_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool unflushed_ CALLOUT_GUARDED_BY(mutex_) = false;
};

}  // namespace callout::python
