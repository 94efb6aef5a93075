// SPDX-License-Identifier: Apache-2.0
//
// The door to XLA FFI: what differs between runtimes is decided here, once a process, from the host's minor version.
// Built against the headers of jaxlib 0.10.2 (FFI 0.3); runs on 0.2 to 0.5. The call frame, buffers and metadata have
// one layout in all of them; State_Set/State_Get gained `stage` in 0.3, and error details moved in 0.4.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "callout/status.h"
#include "xla/ffi/api/c_api.h"

namespace callout::internal {

/// What an executable keeps for one call site. XLA destroys it with the executable, on any thread.
class SiteState {
 public:
  virtual ~SiteState() = default;
};

/// True if `frame` only asks for the handler's metadata, which is then answered with min(own, host's) version.
/// `stateful`: also register the state type with the runtime and name it. `capturable`: what the handler does may be
/// recorded into a command buffer and replayed without it; a runtime believes that of the execute handler alone.
bool AnswerMetadata(XLA_FFI_CallFrame* frame, bool stateful, XLA_FFI_Error** error, bool capturable = false);

/// Takes ownership of `state` unless an error is returned.
XLA_FFI_Error* SetState(XLA_FFI_CallFrame* frame, SiteState* state);

/// Borrowed: valid until the handler returns. Null with `*error` set if the site was never instantiated.
SiteState* GetState(XLA_FFI_CallFrame* frame, XLA_FFI_Error** error);

/// A foreign error for `status`, or null if it is ok.
XLA_FFI_Error* ToFfiError(const XLA_FFI_Api* api, const Status& status);

/// Takes ownership of `error`, which may be null.
Status FromFfiError(const XLA_FFI_Api* api, XLA_FFI_Error* error);

/// Local device number, -1 where the runtime does not tell.
int32_t DeviceOrdinal(XLA_FFI_CallFrame* frame);

/// 0 where the runtime does not tell.
int64_t RunId(XLA_FFI_CallFrame* frame);

/// The device's stream that the handler's work belongs on, a CUstream on CUDA. Unimplemented where there is none.
Result<void*> PlatformStream(XLA_FFI_CallFrame* frame);

/// The handlers of a target. Only `execute` is never null.
struct Handlers {
  XLA_FFI_Handler* instantiate = nullptr;
  XLA_FFI_Handler* initialize = nullptr;  ///< Called before executions and before captures, on some platforms only.
  XLA_FFI_Handler* execute = nullptr;
  XLA_FFI_Handler* prepare = nullptr;
  uint32_t traits = 0;
};

/// Registers the handlers of a target with the runtime behind `api`. Errors: those of the runtime, such as another
/// target of that name, or a version that it does not take.
Status RegisterHandlers(const XLA_FFI_Api* api, std::string_view name, std::string_view platform,
                        const Handlers& handlers);

/// A number among the attributes, by name. `fallback` if absent, InvalidArgument if of another type. What a target
/// takes is decoded by attributes/decode.h.
Result<int64_t> Int64Attribute(const XLA_FFI_Attrs& attrs, std::string_view name, int64_t fallback);

// XLA's promise of a handler that returns before its call is over.

/// The end of one call. XLA goes on with the program on the thread that ends it, for as long as the program takes, and
/// with that thread's floating-point modes. Copies are of the same promise.
class Future {
 public:
  /// Promises that the call of `frame` ends later: its handler returns no error, and what lies in the frame's buffers
  /// stays until then. The frame itself does not. Only the handler's own thread may call this.
  static Result<Future> Promise(XLA_FFI_CallFrame* frame);

  /// Ends the call, as `outcome` says. Call once, on any thread.
  void End(const Status& outcome) const;

 private:
  Future(const XLA_FFI_Api* api, XLA_FFI_Future* future) : api_(api), future_(future) {}

  const XLA_FFI_Api* api_;
  XLA_FFI_Future* future_;
};

// The threads that XLA computes with, lent to a handler for the length of its call.

/// How many threads the pool of this call has; 0 where the runtime lends none.
int64_t PoolThreads(XLA_FFI_CallFrame* frame);

/// Has `task` run once, on a thread of the pool, or by this thread before this returns. It may run after the handler
/// has returned. Drops it, and returns an error, where there is no pool. `task` must not throw. Only the handler's own
/// thread may call this.
Status ScheduleOnPool(XLA_FFI_CallFrame* frame, std::function<void()> task);

}  // namespace callout::internal
