// SPDX-License-Identifier: Apache-2.0
//
// A handmade XLA FFI runtime: the functions that handlers use, with the struct layouts of FFI 0.2, 0.3, 0.4 or 0.5.
// Like XLA, it rejects argument structs that are too small, keeps all registered types, and checks the types of states.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "callout/status.h"
#include "core/frame/ffi_abi.h"
#include "testing/frame_builder.h"

namespace callout::internal {

class FakeRuntime {
 public:
  /// Returns a runtime, which is never destroyed, because handlers remember their runtimes. `minor` is 2 to 5.
  static FakeRuntime& ForMinor(int minor);
  /// Returns another runtime, such as a PJRT plugin has. It is never destroyed; ffi_abi.cc remembers at most 8 in a
  /// process.
  static FakeRuntime& New(int minor);

  const XLA_FFI_Api* api() const { return &api_; }
  int minor() const { return api_.api_version.minor_version; }

  struct Metadata {
    Status status;
    int major = -1;
    int minor = -1;
    int64_t state_type_id = 0;
    uint32_t traits = 0;
  };
  /// Asks a handler for its metadata, as XLA does when the handler is registered.
  Metadata QueryMetadata(XLA_FFI_Handler* handler) const;

  /// The number of errors that were created and not destroyed, in all runtimes.
  static int64_t live_errors();
  /// The number of state types that were registered since the start, in all runtimes.
  static int64_t registered_types();
  /// Makes the next Type_Register fail with this message.
  static void FailNextTypeRegister(std::string message);

 private:
  explicit FakeRuntime(int minor);

  XLA_FFI_Api api_;
};

/// The ways in which a FakeSite's pool runs a task.
enum class PoolMode {
  kThreads,  ///< On a thread of its own.
  kInline,   ///< Before Schedule returns.
  kLate,     ///< After the handler has returned; see TakeTasks.
  kRefuse,   ///< Never: Schedule fails.
};

/// A call site of an executable, which owns the state that the instantiate handler sets.
class FakeSite {
 public:
  FakeSite(const FakeRuntime& runtime, XLA_FFI_Handler* instantiate, XLA_FFI_Handler* execute)
      : runtime_(runtime), instantiate_(instantiate), execute_(execute) {}
  /// Destroys the state first, and only then waits for the pool's threads and runs kept tasks, because XLA does not
  /// wait either.
  ~FakeSite();
  FakeSite(const FakeSite&) = delete;
  FakeSite& operator=(const FakeSite&) = delete;

  /// The results of DeviceOrdinal_Get and RunId_Get; errors if empty.
  std::optional<int32_t> device_ordinal = 0;
  std::optional<int64_t> run_id = 0;
  /// The result of Stream_Get; an error if empty.
  std::optional<void*> stream;
  /// The result of ThreadPool_NumThreads. If empty, this function and Schedule fail.
  std::optional<int64_t> pool_threads;
  PoolMode pool_mode = PoolMode::kThreads;

  /// Calls the handler with the frame's attributes only, as XLA does.
  Status Instantiate(FrameBuilder& frame);
  /// Calls the handler that XLA calls before it executes or captures a program.
  Status Initialize(FrameBuilder& frame, XLA_FFI_Handler* initialize);
  /// Calls the handler that executes the call. If the call is asynchronous, blocks until it has ended.
  Status Execute(FrameBuilder& frame);
  /// Returns the frame of the last stage, for direct calls of the accessors. Borrowed: valid as long as `frame`.
  XLA_FFI_CallFrame* Frame(FrameBuilder& frame, XLA_FFI_ExecutionStage stage);
  bool has_state() const { return state_ != nullptr; }
  /// The number of tasks that Schedule has taken.
  int64_t scheduled() const { return scheduled_; }
  /// Returns the tasks that kLate keeps. Each must be run once.
  std::vector<std::function<void()>> TakeTasks() { return std::exchange(tasks_, {}); }

 private:
  friend struct FakeApi;

  const FakeRuntime& runtime_;
  XLA_FFI_Handler* const instantiate_;
  XLA_FFI_Handler* const execute_;
  void* state_ = nullptr;
  int64_t state_type_ = 0;
  int64_t scheduled_ = 0;
  std::vector<std::thread> threads_;
  std::vector<std::function<void()>> tasks_;
};

/// Takes ownership of a fake runtime's error, which may be null.
Status TakeError(XLA_FFI_Error* error);

}  // namespace callout::internal
