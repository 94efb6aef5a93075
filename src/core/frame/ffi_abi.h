// SPDX-License-Identifier: Apache-2.0
//
// The door to XLA FFI. Runtimes differ in their versions, and this file alone adapts to the host's minor version, once
// per process. Built against the headers of jaxlib 0.10.2 (FFI 0.3); runs on 0.2 to 0.5. The call frame, buffers and
// metadata have one layout in all of them; State_Set/State_Get gained `stage` in 0.3, and error details moved in 0.4.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "callout/status.h"
#include "xla/ffi/api/c_api.h"

namespace callout::internal {

/// The state that an executable keeps for one call site. XLA destroys it with the executable, on any thread.
class SiteState {
 public:
  virtual ~SiteState() = default;
};

/// Returns true if `frame` only asks for the handler's metadata, and answers with the lower of Callout's and the host's
/// version. `stateful`: also registers the state type with the runtime and reports its id. `capturable`: XLA may record
/// the handler's work into a command buffer and replay it without the handler; a runtime only reads this from the
/// execute handler.
bool AnswerMetadata(XLA_FFI_CallFrame* frame, bool stateful, XLA_FFI_Error** error, bool capturable = false);

/// Gives the state of a call site to XLA. Takes ownership of `state` unless an error is returned.
XLA_FFI_Error* SetState(XLA_FFI_CallFrame* frame, SiteState* state);

/// Returns the state of the call site. Borrowed: valid until the handler returns. Null with `*error` set if the site
/// was never instantiated.
SiteState* GetState(XLA_FFI_CallFrame* frame, XLA_FFI_Error** error);

/// Makes XLA's error for `status`; null for a success. The error's text has a tag: see core/encoding/error_tag.h.
XLA_FFI_Error* ToFfiError(const XLA_FFI_Api* api, const Status& status);

/// Converts XLA's error. Takes ownership of `error`, which may be null.
Status FromFfiError(const XLA_FFI_Api* api, XLA_FFI_Error* error);

/// Returns the local device number; -1 if the runtime does not report it.
int32_t DeviceOrdinal(XLA_FFI_CallFrame* frame);

/// Returns the run id; 0 if the runtime does not report it.
int64_t RunId(XLA_FFI_CallFrame* frame);

/// Returns the device's stream for the handler's work, a CUstream on CUDA. Unimplemented if there is none.
Result<void*> PlatformStream(XLA_FFI_CallFrame* frame);

/// The handlers of a target. Only `execute` is never null.
struct Handlers {
  XLA_FFI_Handler* instantiate = nullptr;
  XLA_FFI_Handler* initialize = nullptr;  ///< Some platforms call it before executions and before captures.
  XLA_FFI_Handler* execute = nullptr;
  XLA_FFI_Handler* prepare = nullptr;
  uint32_t traits = 0;
};

/// Registers the handlers of a target with the runtime behind `api`. Errors: those of the runtime, such as another
/// target of that name, or a version that it does not support.
Status RegisterHandlers(const XLA_FFI_Api* api, std::string_view name, std::string_view platform,
                        const Handlers& handlers);

/// Returns a number among the attributes, by name; `fallback` if it is absent, InvalidArgument if it has another type.
/// attributes/decode.h decodes a target's own attributes.
Result<int64_t> Int64Attribute(const XLA_FFI_Attrs& attrs, std::string_view name, int64_t fallback);

// Futures: XLA's interface for a handler that returns before its call is over.

/// The future end of one call. The thread that ends the call runs the rest of the program, for as long as that takes,
/// with the thread's floating-point environment. Copies are the same future.
class Future {
 public:
  /// Promises XLA that the call of `frame` ends later. The handler must then return no error. The memory of the frame's
  /// buffers stays valid until the end; the frame itself does not. Only the handler's own thread may call this.
  static Result<Future> Promise(XLA_FFI_CallFrame* frame);

  /// Ends the call with `outcome`. Call once, on any thread.
  void End(const Status& outcome) const;

 private:
  Future(const XLA_FFI_Api* api, XLA_FFI_Future* future) : api_(api), future_(future) {}

  const XLA_FFI_Api* api_;
  XLA_FFI_Future* future_;
};

// XLA's compute threads, which a handler may use during its call.

/// Returns the number of threads in the pool of this call; 0 if the runtime lends none.
int64_t PoolThreads(XLA_FFI_CallFrame* frame);

/// Runs `task` once, on a thread of the pool, or on this thread before this returns. The task may run after the handler
/// has returned. Drops the task, and returns an error, if there is no pool. `task` must not throw. Only the handler's
/// own thread may call this.
Status ScheduleOnPool(XLA_FFI_CallFrame* frame, std::function<void()> task);

}  // namespace callout::internal
