// SPDX-License-Identifier: Apache-2.0
//
// An XLA FFI runtime built by hand: the functions that handlers use, with the struct layouts of FFI 0.2, 0.3, 0.4 or
// 0.5. Like XLA it refuses argument structs that are too small, forgets nothing and checks types of states.
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
  /// Immortal: handlers remember the runtimes that they have seen. `minor` is 2 to 5.
  static FakeRuntime& ForMinor(int minor);
  /// A further runtime, as a PJRT plugin brings one along. Never destroyed; ffi_abi.cc remembers at most 8 in a
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
  /// What XLA asks a handler when it is registered.
  Metadata QueryMetadata(XLA_FFI_Handler* handler) const;

  /// Errors created and not destroyed, in all runtimes.
  static int64_t live_errors();
  /// State types registered since the start, in all runtimes.
  static int64_t registered_types();
  /// The next Type_Register fails with this.
  static void FailNextTypeRegister(std::string message);

 private:
  explicit FakeRuntime(int minor);

  XLA_FFI_Api api_;
};

/// What a FakeSite's pool does with a task.
enum class PoolMode {
  kThreads,  ///< Runs it on a thread of its own.
  kInline,   ///< Runs it before Schedule returns.
  kLate,     ///< Keeps it: it runs when the handler has returned, see TakeTasks.
  kRefuse,   ///< Schedule fails.
};

/// A call site of an executable: it owns the state that the instantiate handler sets, and destroys it.
class FakeSite {
 public:
  FakeSite(const FakeRuntime& runtime, XLA_FFI_Handler* instantiate, XLA_FFI_Handler* execute)
      : runtime_(runtime), instantiate_(instantiate), execute_(execute) {}
  /// Destroys the state, and only then waits for the pool's threads and runs the tasks that it kept: XLA does not wait.
  ~FakeSite();
  FakeSite(const FakeSite&) = delete;
  FakeSite& operator=(const FakeSite&) = delete;

  /// What DeviceOrdinal_Get and RunId_Get answer; an error if empty.
  std::optional<int32_t> device_ordinal = 0;
  std::optional<int64_t> run_id = 0;
  /// What Stream_Get answers; an error if empty.
  std::optional<void*> stream;
  /// What ThreadPool_NumThreads answers; an error, and from Schedule too, if empty.
  std::optional<int64_t> pool_threads;
  PoolMode pool_mode = PoolMode::kThreads;

  /// Calls the handler with the frame's attributes only, as XLA does.
  Status Instantiate(FrameBuilder& frame);
  /// As XLA does before it executes or captures, where it does that.
  Status Initialize(FrameBuilder& frame, XLA_FFI_Handler* initialize);
  /// Waits for the end of a call that the handler promises.
  Status Execute(FrameBuilder& frame);
  /// The frame of the last stage, for calls of the accessors themselves. Borrowed from `frame`.
  XLA_FFI_CallFrame* Frame(FrameBuilder& frame, XLA_FFI_ExecutionStage stage);
  bool has_state() const { return state_ != nullptr; }
  /// Tasks that Schedule has taken.
  int64_t scheduled() const { return scheduled_; }
  /// The tasks that kLate keeps. Each must be run once.
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
