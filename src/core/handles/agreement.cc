// SPDX-License-Identifier: Apache-2.0
#include "core/handles/agreement.h"

#include <algorithm>

namespace callout::internal {
namespace {

uint64_t& CountOf(std::vector<std::pair<int32_t, uint64_t>>& counts, int32_t device) {
  for (auto& [ordinal, count] : counts) {
    if (ordinal == device) return count;
  }
  return counts.emplace_back(device, 0).second;
}

}  // namespace

Agreement::Asked& Agreement::Find(int64_t run, const Handle& handle) {
  for (auto asked = asked_.rbegin(); asked != asked_.rend(); ++asked) {
    if (asked->run == run && asked->handle == handle) return *asked;
  }
  if (std::find(runs_.begin(), runs_.end(), run) == runs_.end()) {
    runs_.push_back(run);
    if (runs_.size() > kMostRuns) {
      std::erase_if(asked_, [ended = runs_.front()](const Asked& asked) { return asked.run == ended; });
      runs_.pop_front();
    }
  }
  return asked_.emplace_back(Asked{.run = run, .handle = handle, .counts = {}, .most = 0, .answers = {}});
}

Result<Answer> Agreement::Ask(int64_t run, const Handle& handle, int32_t device,
                              const std::function<Result<Answer>()>& read) {
  const MutexLock lock(mutex_);
  Asked& asked = Find(run, handle);
  const uint64_t question = ++CountOf(asked.counts, device);
  if (question > asked.most) {
    asked.most = question;
    Result<Answer> answer = read();
    const bool is_new = asked.answers.empty() || !answer.ok() || !asked.answers.back().answer.ok() ||
                        *answer != *asked.answers.back().answer;
    if (is_new) asked.answers.push_back({.since = question, .answer = std::move(answer)});
    return asked.answers.back().answer;
  }
  ForgetWhatAllHaveHeard(asked);
  const auto after = std::upper_bound(asked.answers.begin(), asked.answers.end(), question,
                                      [](uint64_t number, const DatedAnswer& answer) { return number < answer.since; });
  return std::prev(after)->answer;
}

void Agreement::ForgetWhatAllHaveHeard(Asked& asked) const {
  if (asked.answers.size() == 1 || std::cmp_less(asked.counts.size(), devices_)) return;
  uint64_t slowest = asked.most;
  for (const auto& [device, count] : asked.counts) slowest = std::min(slowest, count);
  while (asked.answers.size() > 1 && asked.answers[1].since <= slowest) asked.answers.pop_front();
}

}  // namespace callout::internal
