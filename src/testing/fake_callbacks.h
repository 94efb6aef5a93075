// SPDX-License-Identifier: Apache-2.0
//
// Callbacks for tests: one that calls functions of the test, and one that blocks until the test opens it. Both can
// stand for a Python callback: a callback on the Python worker without a gate needs no interpreter.
#pragma once

#include <condition_variable>
#include <functional>
#include <string>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// Calls functions that the test sets. They must be set before the callback is used.
class FakeCallback : public Callback {
 public:
  explicit FakeCallback(std::string label, Worker worker = Worker::kNative)
      : Callback(std::move(label)), worker_(worker) {}

  std::function<Status(const callout_call&)> on_call = [](const callout_call&) { return OkStatus(); };
  std::function<Status(const Record&)> on_deliver = [](const Record&) { return OkStatus(); };
  std::function<Status()> on_flush = [] { return OkStatus(); };
  std::function<void()> on_destroy = [] {};

  ~FakeCallback() override { on_destroy(); }
  Worker worker() const override { return worker_; }
  Status Call(const callout_call& call) override { return on_call(call); }
  Status Deliver(const Record& record) override { return on_deliver(record); }
  Status Flush() override { return on_flush(); }

 private:
  const Worker worker_;
};

/// Blocks in Call and Deliver until Open; counts the calls and records that have entered.
class BlockingCallback final : public Callback {
 public:
  explicit BlockingCallback(std::string label, Worker worker = Worker::kNative)
      : Callback(std::move(label)), worker_(worker) {}

  /// Lets all calls and records through, from now on. Thread-safe.
  void Open();
  /// Blocks until `count` calls or records have entered since the start. Thread-safe.
  void WaitUntilEntered(int count);
  /// The number of calls and records that have entered. Thread-safe.
  int entered() const;

  Worker worker() const override { return worker_; }
  Status Call(const callout_call& call) override;
  Status Deliver(const Record& record) override;

 private:
  void Enter();

  const Worker worker_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  int entered_ CALLOUT_GUARDED_BY(mutex_) = 0;
  bool open_ CALLOUT_GUARDED_BY(mutex_) = false;
};

/// Sets each result to its operand plus one. For calls with arrays of floats.
Status AddOne(const callout_call& call);

}  // namespace callout::internal
