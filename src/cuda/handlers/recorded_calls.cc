// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/recorded_calls.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/callbacks/invoke.h"
#include "cuda/driver/resources.h"

namespace callout::internal {
namespace {

std::atomic<int64_t> g_recorded{0};
std::atomic<int64_t> g_launched{0};

std::vector<const void*> AddressesOf(const callout_call& call) {
  std::vector<const void*> addresses;
  addresses.reserve(size_t{call.num_args} + call.num_results);
  for (uint32_t i = 0; i < call.num_args; ++i) addresses.push_back(call.args[i].data);
  for (uint32_t i = 0; i < call.num_results; ++i) addresses.push_back(call.results[i].data);
  return addresses;
}

constexpr char kHint[] =
    "\nIts work was being recorded, for graph=True. Meanwhile a function must not allocate memory of the device, wait "
    "for it, or queue work on other streams than its own: give it memory by `scratch`, or leave graph=True out";

}  // namespace

Status RecordedCalls::Call(Callback& callback, const callout_call& call) {
  std::vector<const void*> addresses = AddressesOf(call);
  bool has_run = false;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                    [&](const Recording& recording) { return recording.addresses == addresses; });
    if (found != recordings_.end()) {
      recordings_.splice(recordings_.begin(), recordings_, found);
      return Launch(*found, call);
    }
    has_run = has_run_;
  }
  // Runs the callback without the lock, because it may run this program again.
  if (!has_run) {
    CALLOUT_RETURN_IF_ERROR(Invoke(callback, call));
    const MutexLock lock(mutex_);
    has_run_ = true;
    return OkStatus();
  }
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Graph graph, Record(callback, call));
  CALLOUT_ASSIGN_OR_RETURN(cuda::GraphExec executable, MakeExecutable(graph));
  const MutexLock lock(mutex_);
  recordings_.push_front({std::move(addresses), std::move(executable)});
  if (recordings_.size() > kMost) recordings_.pop_back();
  return Launch(recordings_.front(), call);
}

Status RecordedCalls::Launch(const Recording& recording, const callout_call& call) {
  g_launched.fetch_add(1, std::memory_order_relaxed);
  return cuda::Launch(device_, recording.executable, static_cast<cuda::CUstream>(call.stream));
}

// Returns a stream that only this recording uses: other threads may queue work on the program's stream.
Result<cuda::Stream> RecordedCalls::TakeStream() {
  {
    const MutexLock lock(mutex_);
    if (!streams_.empty()) {
      cuda::Stream stream = std::move(streams_.back());
      streams_.pop_back();
      return stream;
    }
  }
  return CreateStream(device_);
}

Result<cuda::Graph> RecordedCalls::Record(Callback& callback, const callout_call& call) {
  CALLOUT_ASSIGN_OR_RETURN(cuda::Stream stream, TakeStream());
  CALLOUT_ASSIGN_OR_RETURN(cuda::StreamCapture capture, cuda::StreamCapture::Begin(device_, stream.get()));
  callout_call recorded = call;
  recorded.stream = stream.get();
  const Status called = Invoke(callback, recorded);
  Result<cuda::Graph> graph = capture.End();
  if (!called.ok()) return called.WithMessage(std::string(called.message()) + kHint);
  if (!graph.ok()) {
    return Status(StatusCode::kFailedPrecondition,
                  DescribeFailure(callback, call.device_ordinal, graph.status()) + kHint);
  }
  g_recorded.fetch_add(1, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  streams_.push_back(std::move(stream));  // After a failure the stream may still be capturing, and is dropped.
  return graph;
}

// Updates the oldest executable if enough exist, which costs a fraction of making one. Its earlier launches are not
// affected.
Result<cuda::GraphExec> RecordedCalls::MakeExecutable(const cuda::Graph& graph) {
  cuda::GraphExec oldest;
  {
    const MutexLock lock(mutex_);
    if (recordings_.size() >= kMost) {
      oldest = std::move(recordings_.back().executable);
      recordings_.pop_back();
    }
  }
  // If the work differs, which is no error, makes a new executable.
  if (oldest && Update(device_, oldest, graph).ok()) return oldest;
  return Instantiate(device_, graph);
}

std::pair<int64_t, int64_t> RecordedCallCounts() {
  return {g_recorded.load(std::memory_order_relaxed), g_launched.load(std::memory_order_relaxed)};
}

}  // namespace callout::internal
