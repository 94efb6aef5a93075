// SPDX-License-Identifier: Apache-2.0
#include "workload.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include "callout/pjrt/trace.h"
#include "core/base/cat.h"

namespace callout::tools {
namespace {

// Returns nanoseconds of the steady clock.
int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Workload::Workload(const pjrt::LoadedExecutable& executable, const Buffers& arguments) : executable_(executable) {
  for (const std::vector<pjrt::Buffer>& on_device : arguments) {
    arguments_.emplace_back();
    for (const pjrt::Buffer& buffer : on_device) arguments_.back().push_back(&buffer);
  }
}

Status Workload::RunOnce(Buffers& outputs, std::vector<Span>& spans) const {
  const pjrt::TracePhase phase("run");
  const int64_t begin = Now();
  CALLOUT_ASSIGN_OR_RETURN(pjrt::Execution execution, executable_.Execute(arguments_));
  Status status = execution.Wait();
  spans.push_back({begin, Now()});
  outputs = std::move(execution.outputs);
  return status;
}

void Workload::RunThread(const Load& load, int64_t begin, size_t thread) {
  Status status;
  std::vector<Span> spans;
  const auto end = begin + static_cast<int64_t>(load.min_seconds * 1e9);
  // `started_` includes the first run of each thread.
  const auto goes_on = [&] { return !failed_ && (spans.empty() || started_.fetch_add(1) < load.runs || Now() < end); };
  while (status.ok() && goes_on()) {
    status = RunOnce(outputs_[thread], spans);
    ++done_;
  }
  const std::lock_guard lock(mutex_);
  if (!status.ok() && !failed_.exchange(true)) error_ = std::move(status);
  spans_.insert(spans_.end(), spans.begin(), spans.end());
}

Status Workload::Run(const Load& load) {
  started_ = load.threads;
  done_ = 0;
  spans_.clear();
  outputs_ = std::vector<Buffers>(static_cast<size_t>(load.threads));
  const int64_t begin = Now();
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < outputs_.size(); ++i) threads.emplace_back([&, i] { RunThread(load, begin, i); });
  } catch (const std::system_error& error) {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true)) {
      error_ = InternalError(internal::Cat("cannot start ", load.threads, " threads: ", error.what()));
    }
  }
  RunThread(load, begin, 0);
  for (std::thread& thread : threads) thread.join();
  std::sort(spans_.begin(), spans_.end(), [](const Span& one, const Span& other) { return one.begin < other.begin; });
  return error_;
}

Times Workload::ReadTimes() const {
  Times times;
  int64_t last = 0;
  for (const Span& span : spans_) {
    times.nanoseconds.push_back(span.end - span.begin);
    last = std::max(last, span.end);
  }
  if (!spans_.empty()) times.wall_nanoseconds = last - spans_.front().begin;
  return times;
}

}  // namespace callout::tools
