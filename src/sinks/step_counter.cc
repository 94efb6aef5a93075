// SPDX-License-Identifier: Apache-2.0
#include "sinks/step_counter.h"

#include "frame/buffer.h"

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

int64_t StepCounter::Next(const Record& record) {
  if (last_ == nullptr || last_->first.second != record.device_ordinal || last_->first.first != record.site->label) {
    const auto resumed = resumed_.find(record.site->label);
    const int64_t first = resumed == resumed_.end() ? 0 : resumed->second;
    last_ = &*next_.try_emplace({record.site->label, record.device_ordinal}, first).first;
  }
  std::optional<int64_t> step = record.step;
  if (!step) step = LeafStep(record);
  if (!step) step = StepAfter(last_->second, record.unsent);
  last_->second = StepAfter(*step, 1);
  return *step;
}

void StepCounter::Resume(const std::string& label, int64_t step) { resumed_[label] = StepAfter(step, 1); }

}  // namespace callout::internal
