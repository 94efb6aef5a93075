// SPDX-License-Identifier: Apache-2.0
//
// What every thread, queue and destructor asks about the process. Has exit begun, and is this a forked child? Neither
// the Python interpreter nor our threads may be touched after the one, nor in the other. Which of several is it?
// PluginThreadScope marks threads that a plugin lends for a moment: such a thread must not wait for what waits for
// it.
#pragma once

#include <cstdint>

#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {

/// True once exit has begun. One atomic load. Thread-safe.
CALLOUT_EXPORT bool ProcessIsExiting();

/// Called by the exit hook, before threads are forbidden. Thread-safe.
CALLOUT_EXPORT void SetProcessIsExiting(bool exiting);

/// Which of a program's processes this is; 0 until it was set. Thread-safe.
CALLOUT_EXPORT int64_t ProcessIndex();
CALLOUT_EXPORT void SetProcessIndex(int64_t index);

/// From now on the process has threads that a forked child lacks. Thread-safe.
CALLOUT_EXPORT void NoteProcessIsUsed();

/// True in a child of a process that had used this library: its threads did not come along. One that was forked before
/// is a process like others: servers that fork workers have often imported what these need. Thread-safe.
CALLOUT_EXPORT bool ProcessIsForkedChild();

/// Marks the calling thread, while a plugin calls a function that Callout gave it: the listener of an event, the
/// destructor of a state.
class CALLOUT_EXPORT PluginThreadScope {
 public:
  PluginThreadScope() noexcept;
  ~PluginThreadScope();
  PluginThreadScope(const PluginThreadScope&) = delete;
  PluginThreadScope& operator=(const PluginThreadScope&) = delete;

  /// True if the calling thread is in one: it may be a plugin's own, which the plugin's client waits for at its end.
  static bool IsIn() noexcept;
};

// One core in a process: two would register the same FFI targets and keep two queues, two registries, two exit hooks.

/// FailedPrecondition, naming both files, if another libcallout was loaded into this process before this one.
/// Thread-safe.
CALLOUT_EXPORT Status CheckOnlyCore();

}  // namespace callout::internal
