// SPDX-License-Identifier: Apache-2.0
//
// The state of the process that threads, queues and destructors depend on. ProcessIsExiting and ProcessIsForkedChild:
// after exit has begun, and in a forked child, neither the Python interpreter nor Callout's threads may be touched.
// ProcessIndex: the number of the process in a program of several. PluginThreadScope marks threads that a plugin lends
// for a moment: such a thread must not wait for anything that waits for the thread.
#pragma once

#include <cstdint>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// Returns true once exit has begun, by one atomic load. Thread-safe.
CALLOUT_EXPORT bool ProcessIsExiting();

/// Sets whether exit has begun. The exit hook calls it before threads are forbidden. Thread-safe.
CALLOUT_EXPORT void SetProcessIsExiting(bool exiting);

/// Returns the number of this process in its program; 0 until it was set. Thread-safe.
CALLOUT_EXPORT int64_t ProcessIndex();
CALLOUT_EXPORT void SetProcessIndex(int64_t index);

/// Notes that from now on the process has threads that a forked child lacks. Thread-safe.
CALLOUT_EXPORT void NoteProcessIsUsed();

/// Returns true in a child of a process that had used this library, because the parent's threads are missing. A child
/// that was forked before the first use is an ordinary process: servers that fork workers have often imported the
/// workers' libraries. Thread-safe.
CALLOUT_EXPORT bool ProcessIsForkedChild();

/// The message of a call, a tap and a barrier in a forked child.
inline constexpr char kForkText[] =
    "ForkError: this process was forked from one that had used Callout or JAX's devices, and its threads stayed there. "
    "Start workers with the 'spawn' or 'forkserver' method instead";

/// Returns the failure with kForkText: FailedPrecondition, of the kind kFork. Thread-safe.
CALLOUT_EXPORT Status ForkedChildError();

/// Marks the calling thread while a plugin calls one of Callout's functions on it: the listener of an event, the
/// destructor of a state.
class CALLOUT_EXPORT PluginThreadScope {
 public:
  PluginThreadScope() noexcept;
  ~PluginThreadScope();
  PluginThreadScope(const PluginThreadScope&) = delete;
  PluginThreadScope& operator=(const PluginThreadScope&) = delete;

  /// Returns true if the calling thread is in a scope: it may be a plugin's own thread, for which the plugin's client
  /// waits at its end.
  static bool IsIn() noexcept;
};

// A process may have only one core: two cores would register the same FFI targets and have two queues, two registries
// and two exit hooks.

/// Returns FailedPrecondition, with the names of both files, if another libcallout was loaded into this process before
/// this one. Thread-safe.
CALLOUT_EXPORT Status CheckOnlyCore();

}  // namespace callout::internal
