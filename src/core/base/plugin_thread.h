// SPDX-License-Identifier: Apache-2.0
//
// Threads that a plugin lends for a moment: they must not wait for what waits for them.
#pragma once

#include "callout/export.h"

namespace callout::internal {

/// To be on the stack while a plugin calls what it was given: an event's listener, the destructor of a state.
class CALLOUT_EXPORT PluginThreadScope {
 public:
  PluginThreadScope() noexcept;
  ~PluginThreadScope();
  PluginThreadScope(const PluginThreadScope&) = delete;
  PluginThreadScope& operator=(const PluginThreadScope&) = delete;

  /// True if the calling thread is in one: it may be a plugin's own, which the plugin's client waits for at its end.
  static bool IsIn() noexcept;
};

}  // namespace callout::internal
