// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/run_context.h"

#include <array>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "core/base/thread_annotations.h"

namespace callout::internal {
namespace {

struct Part {
  Mutex mutex;
  std::unordered_map<int64_t, SeenRun> runs CALLOUT_GUARDED_BY(mutex);
};

struct RunContexts {
  // Nearly always 0, which calls of programs read without a lock. Relaxed: a run begins after its context was counted
  // and ends before the context is uncounted, so its calls cannot read 0. The lock orders all other reads.
  std::atomic<int64_t> count{0};
  std::atomic<uint32_t> next{0};
  std::array<Part, 16> parts;

  Part& PartOf(int64_t launch_id) { return parts[static_cast<uint64_t>(launch_id) % parts.size()]; }
};

RunContexts& GetContexts() {
  static RunContexts* const contexts = new RunContexts;  // leaked: programs run until the process ends
  return *contexts;
}

}  // namespace

RunContext::RunContext(std::shared_ptr<void> given, int32_t run_id) : given_(std::move(given)) {
  RunContexts& contexts = GetContexts();
  for (;;) {
    const uint32_t drawn = contexts.next.fetch_add(1, std::memory_order_relaxed) % uint32_t{kFirst};
    launch_id_ = kFirst + static_cast<int32_t>(drawn);
    Part& part = contexts.PartOf(launch_id_);
    MutexLock lock(part.mutex);
    const SeenRun seen = {given_.get(), run_id == 0 ? launch_id_ : int64_t{run_id}};
    if (!part.runs.emplace(launch_id_, seen).second) continue;  // a run that outlasted 2^30 others has it
    contexts.count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
}

RunContext::~RunContext() {
  RunContexts& contexts = GetContexts();
  Part& part = contexts.PartOf(launch_id_);
  MutexLock lock(part.mutex);
  part.runs.erase(launch_id_);
  contexts.count.fetch_sub(1, std::memory_order_relaxed);
}

SeenRun FindRun(int64_t launch_id) {
  RunContexts& contexts = GetContexts();
  if (contexts.count.load(std::memory_order_relaxed) == 0) [[likely]]
    return {nullptr, launch_id};
  Part& part = contexts.PartOf(launch_id);
  MutexLock lock(part.mutex);
  const auto it = part.runs.find(launch_id);
  return it == part.runs.end() ? SeenRun{nullptr, launch_id} : it->second;
}

}  // namespace callout::internal
