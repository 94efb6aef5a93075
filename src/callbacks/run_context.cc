// SPDX-License-Identifier: Apache-2.0
#include "callbacks/run_context.h"

#include <array>
#include <atomic>
#include <string>
#include <unordered_map>

#include "base/thread_annotations.h"

namespace callout::internal {
namespace {

struct Part {
  Mutex mutex;
  std::unordered_map<int64_t, void*> contexts CALLOUT_GUARDED_BY(mutex);
};

struct RunContexts {
  // Nearly always 0, which calls of programs see without a lock. Seq_cst: a run begins after its context is there.
  std::atomic<int64_t> count{0};
  std::atomic<uint32_t> next{0};
  std::array<Part, 16> parts;

  Part& PartOf(int64_t run_id) { return parts[static_cast<uint64_t>(run_id) % parts.size()]; }
};

RunContexts& GetContexts() {
  static RunContexts* const contexts = new RunContexts;  // leaked: programs run until the process ends
  return *contexts;
}

bool Add(RunContexts& contexts, int64_t run_id, void* given) {
  Part& part = contexts.PartOf(run_id);
  MutexLock lock(part.mutex);
  if (!part.contexts.emplace(run_id, given).second) return false;
  contexts.count.fetch_add(1);
  return true;
}

}  // namespace

Result<std::shared_ptr<RunContext>> RunContext::Open(std::shared_ptr<void> given, int32_t run_id) {
  RunContexts& contexts = GetContexts();
  void* const pointer = given.get();
  if (run_id != 0) {
    if (Add(contexts, run_id, pointer)) return std::shared_ptr<RunContext>(new RunContext(std::move(given), run_id));
    return InvalidArgument("callout: another run with run_id " + std::to_string(run_id) +
                           " has a context and goes on; leave run_id 0, or give each run its own");
  }
  constexpr uint32_t kFirst = 1U << 30;  // hosts' own numbers are smaller
  for (;;) {
    const auto chosen = static_cast<int32_t>(kFirst + contexts.next.fetch_add(1) % kFirst);
    if (Add(contexts, chosen, pointer)) return std::shared_ptr<RunContext>(new RunContext(std::move(given), chosen));
  }
}

RunContext::~RunContext() {
  RunContexts& contexts = GetContexts();
  Part& part = contexts.PartOf(run_id_);
  MutexLock lock(part.mutex);
  part.contexts.erase(run_id_);
  contexts.count.fetch_sub(1);
}

void* ContextOfRun(int64_t run_id) {
  RunContexts& contexts = GetContexts();
  if (contexts.count.load() == 0) [[likely]]
    return nullptr;
  Part& part = contexts.PartOf(run_id);
  MutexLock lock(part.mutex);
  const auto it = part.contexts.find(run_id);
  return it == part.contexts.end() ? nullptr : it->second;
}

}  // namespace callout::internal
