// SPDX-License-Identifier: Apache-2.0
//
// A callback that has what it calls only while records are under way to it: sites outside of programs have one, and so
// do not keep the functions and sinks alive that they are for.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"

namespace callout::python {

class LentCallback final : public internal::Callback, public internal::Inspector {
 public:
  /// For callbacks like this one: of its label, worker and logger, and that inspect if it does.
  explicit LentCallback(internal::Callback& like);

  internal::Worker worker() const override { return worker_; }
  internal::LogSource log_source() const override { return log_source_; }
  /// Taps only.
  Status Call(const callout_call& call) override;
  Status Deliver(const internal::Record& record) override;
  Status Flush() override;
  internal::Inspector* inspector() override { return inspects_ ? this : nullptr; }
  Result<Send> Inspect(const internal::Record& record) override;

  /// A record is about to be sent. Records that are under way already keep the callback that they have. Thread-safe.
  void Lend(const std::shared_ptr<internal::Callback>& callback);
  /// It was not sent. Thread-safe.
  void TakeBack();

 private:
  std::shared_ptr<internal::Callback> lent();
  std::shared_ptr<internal::Callback> LetGoIfIdle() CALLOUT_REQUIRES(mutex_);

  const internal::Worker worker_;
  const internal::LogSource log_source_;
  const bool inspects_;
  internal::Mutex mutex_;
  std::shared_ptr<internal::Callback> lent_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t under_way_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool unflushed_ CALLOUT_GUARDED_BY(mutex_) = false;
};

}  // namespace callout::python
