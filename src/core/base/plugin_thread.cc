// SPDX-License-Identifier: Apache-2.0
#include "core/base/plugin_thread.h"

namespace callout::internal {

static thread_local int plugin_calls = 0;

PluginThreadScope::PluginThreadScope() noexcept { ++plugin_calls; }

PluginThreadScope::~PluginThreadScope() { --plugin_calls; }

bool PluginThreadScope::IsIn() noexcept { return plugin_calls > 0; }

}  // namespace callout::internal
