// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/callback.h"

#include <unordered_map>
#include <utility>

#include "core/base/fork_mutex.h"
#include "core/base/process_state.h"
#include "core/callbacks/call_statistics.h"

namespace callout::internal {
namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// The labels of all live callbacks.
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

namespace {

std::pair<std::string_view, std::string_view> Split(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

Makers& Makers::Get() {
  static Makers* const makers = new Makers;  // leaked: programs may be loaded until the process ends
  return *makers;
}

Status Makers::Register(const std::string& kind, Maker maker, For whom) {
  if (kind.empty() || kind.find(':') != std::string::npos) {
    return InvalidArgument("callout: a kind of callbacks must not be empty or have a ':', got '" + kind + "'");
  }
  MutexLock lock(mutex_);
  if (!entries_.try_emplace(kind, Entry{std::move(maker), whom}).second) {
    return AlreadyExists("callout: callbacks of kind '" + kind + "' have a maker already");
  }
  return OkStatus();
}

void Makers::RegisterDefault(const std::string& kind, const Maker& maker) {
  MutexLock lock(mutex_);
  defaults_.try_emplace(kind, maker);
}

Makers::Maker Makers::Find(std::string_view kind, bool for_program) const {
  MutexLock lock(mutex_);
  const auto it = entries_.find(kind);
  if (it != entries_.end()) return for_program && it->second.whom != For::kPrograms ? nullptr : it->second.maker;
  const auto ours = defaults_.find(kind);
  return ours == defaults_.end() ? nullptr : ours->second;
}

Result<std::shared_ptr<Callback>> Makers::Make(const std::string& label, std::string_view text) const {
  const auto [kind, payload] = Split(text);
  if (const Maker maker = Find(kind, /*for_program=*/false)) return maker(label, payload);
  std::string known;
  MutexLock lock(mutex_);
  for (const auto& [each, entry] : entries_) known += " '" + each + "'";
  for (const auto& [each, maker] : defaults_) {
    if (!entries_.contains(each)) known += " '" + each + "'";
  }
  return NotFound("callout: the callback '" + label + "' is of the kind '" + std::string(kind) +
                  "', which has no maker; known kinds:" + (known.empty() ? " (none)" : known));
}

Result<std::shared_ptr<Callback>> Makers::MakeForProgram(std::string_view name) const {
  const auto [kind, payload] = Split(name);
  const Maker maker = kind.size() < name.size() ? Find(kind, /*for_program=*/true) : nullptr;
  if (!maker) return std::shared_ptr<Callback>();
  return maker(std::string(kind), payload);
}

}  // namespace callout::internal
