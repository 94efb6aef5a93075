// SPDX-License-Identifier: Apache-2.0
#include "core/base/process_state.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

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

namespace {

struct Search {
  std::string own;          // path of the library that this code is in
  std::string first_other;  // path of a libcallout that the loader lists before it
  bool past_own = false;
};

int Visit(dl_phdr_info* info, size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
  if (path == search.own) search.past_own = true;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const bool is_core = file.starts_with("libcallout.so") || file.starts_with("libcallout-");
  if (is_core && path != search.own && !search.past_own && search.first_other.empty()) search.first_other = path;
  return 0;
}

}  // namespace

Status CheckOnlyCore() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&CheckOnlyCore), &self) == 0 || self.dli_fname == nullptr) return OkStatus();
  Search search;
  search.own = self.dli_fname;
  // The loader lists objects in the order in which they were loaded, so the later copy is the one that finds another
  // before itself.
  dl_iterate_phdr(&Visit, &search);
  if (search.first_other.empty()) return OkStatus();
  return FailedPrecondition("a second copy of the Callout core was loaded: '" + search.own + "', after '" +
                            search.first_other +
                            "'. A process has one core; a library of callbacks must not link libcallout but include "
                            "callout/call.h and be loaded with register(\"name\", \"lib.so:symbol\")");
}

}  // namespace callout::internal
