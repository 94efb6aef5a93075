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
  std::pair<std::string, int32_t> key(record.site->label, record.device_ordinal);
  auto it = next_.find(key);
  if (it == next_.end()) {
    const auto resumed = resumed_.find(key.first);
    it = next_.emplace(std::move(key), resumed == resumed_.end() ? 0 : resumed->second).first;
  }
  std::optional<int64_t> step = record.step;
  if (!step) step = LeafStep(record);
  if (!step) step = StepAfter(it->second, record.unsent);
  it->second = StepAfter(*step, 1);
  return *step;
}

void StepCounter::Resume(const std::string& label, int64_t step) { resumed_[label] = StepAfter(step, 1); }

}  // namespace callout::internal
