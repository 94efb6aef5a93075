// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/callback.h"

#include <unordered_map>

#include "core/base/fork_mutex.h"
#include "core/base/process_state.h"
#include "core/callbacks/call_statistics.h"

namespace callout::internal {
namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// Of the callbacks that live.
struct Labels {
  ForkMutex mutex;
  std::unordered_map<uint64_t, const std::string*> by_id CALLOUT_GUARDED_BY(mutex);
};

Labels& GetLabels() {
  static Labels* const labels = new Labels;  // leaked: callbacks are destroyed during static destruction
  return *labels;
}

}  // namespace

callout_call AsCall(const Record& record) {
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(record.buffers.size());
  call.args = record.buffers.data();
  call.run_id = record.run_id;
  call.device_ordinal = record.device_ordinal;
  return call;
}

Callback::Callback(std::string label) : id_(NextId()), label_(std::move(label)), stats_(StatsFor(label_)) {
  NoteProcessIsUsed();
  Labels& labels = GetLabels();
  MutexLock lock(labels.mutex);
  labels.by_id.emplace(id_, &label_);
}

Callback::~Callback() {
  Labels& labels = GetLabels();
  MutexLock lock(labels.mutex);
  labels.by_id.erase(id_);
}

std::string LabelOf(uint64_t callback_id) {
  Labels& labels = GetLabels();
  MutexLock lock(labels.mutex);
  const auto found = labels.by_id.find(callback_id);
  return found == labels.by_id.end() ? "" : *found->second;
}

}  // namespace callout::internal
