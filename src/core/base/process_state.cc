// SPDX-License-Identifier: Apache-2.0
#include "core/base/process_state.h"

#include <pthread.h>
#include <atomic>

namespace callout::internal {
namespace {

std::atomic<bool> g_exiting{false};
std::atomic<bool> g_used{false};
std::atomic<bool> g_forked{false};
std::atomic<int64_t> g_process_index{0};

[[maybe_unused]] const int g_registered = pthread_atfork(nullptr, nullptr, [] { g_forked.store(g_used.load()); });

}  // namespace

bool ProcessIsExiting() { return g_exiting.load(std::memory_order_acquire); }
void SetProcessIsExiting(bool exiting) { g_exiting.store(exiting, std::memory_order_release); }
int64_t ProcessIndex() { return g_process_index.load(std::memory_order_relaxed); }
void SetProcessIndex(int64_t index) { g_process_index.store(index, std::memory_order_relaxed); }
void NoteProcessIsUsed() { g_used.store(true); }
bool ProcessIsForkedChild() { return g_forked.load(std::memory_order_relaxed); }

static thread_local int plugin_calls = 0;

PluginThreadScope::PluginThreadScope() noexcept { ++plugin_calls; }

PluginThreadScope::~PluginThreadScope() { --plugin_calls; }

bool PluginThreadScope::IsIn() noexcept { return plugin_calls > 0; }

}  // namespace callout::internal
