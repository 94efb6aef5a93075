// SPDX-License-Identifier: Apache-2.0
#include "sinks/step_counter.h"

#include <algorithm>

#include "core/frame/buffer.h"

namespace callout::internal {
namespace {

std::optional<int64_t> LeafStep(const Record& record) {
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    if (const auto step = StepLeaf(record.site->leaf_names[i], record.buffers[i])) return step;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> StepLeaf(const std::string& name, const callout_buffer& buffer) {
  return name == "step" && buffer.rank == 0 ? FirstInteger(buffer) : std::nullopt;
}

void StepCounter::Find(const Record& record) {
  const SiteInfo& site = *record.site;
  const auto resumed = resumed_.find(site.label);
  const int64_t first = resumed == resumed_.end() ? 0 : resumed->second;
  last_ = &*next_.try_emplace({site.label, record.device_ordinal}, first).first;
  last_site_ = site.id;
  has_leaf_ = std::find(site.leaf_names.begin(), site.leaf_names.end(), "step") != site.leaf_names.end();
}

int64_t StepCounter::Next(const Record& record) {
  const bool is_last = record.site->id != 0 && record.site->id == last_site_;
  if (!is_last || last_->first.second != record.device_ordinal) Find(record);
  std::optional<int64_t> step = record.step;
  if (!step && has_leaf_) step = LeafStep(record);
  if (!step) step = StepAfter(last_->second, record.skipped);
  last_->second = StepAfter(*step, 1);
  return *step;
}

void StepCounter::Resume(const std::string& label, int64_t step) { resumed_[label] = StepAfter(step, 1); }

}  // namespace callout::internal
