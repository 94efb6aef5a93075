// SPDX-License-Identifier: Apache-2.0
#include "core/base/process_state.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <string>
#include <string_view>

#include "core/base/platform.h"

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
Status ForkedChildError() { return {StatusCode::kFailedPrecondition, kForkText, StatusKind::kFork}; }

static thread_local int plugin_calls = 0;

PluginThreadScope::PluginThreadScope() noexcept { ++plugin_calls; }

PluginThreadScope::~PluginThreadScope() { --plugin_calls; }

bool PluginThreadScope::IsIn() noexcept { return plugin_calls > 0; }

Status CheckOnlyCore() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&CheckOnlyCore), &self) == 0 || self.dli_fname == nullptr) return OkStatus();
  const std::string own = self.dli_fname;
  // The later one of two copies reports the error, since it finds another copy before itself.
  std::string first_other;
  bool is_past_own = false;
  ForEachLibrary([&](std::string_view path) {
    if (path == own) is_past_own = true;
    const std::string_view file = path.substr(path.rfind('/') + 1);
    const bool is_core = file.starts_with(kCoreFile) || file.starts_with("libcallout-");
    if (is_core && path != own && !is_past_own && first_other.empty()) first_other = path;
  });
  if (first_other.empty()) return OkStatus();
  return FailedPrecondition("a second copy of the Callout core was loaded: '" + own + "', after '" + first_other +
                            "'. A process has one core; a library of callbacks must not link libcallout but include "
                            "callout/call.h and be loaded with register(\"name\", \"lib.so:symbol\")");
}

}  // namespace callout::internal
