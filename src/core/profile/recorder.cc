// SPDX-License-Identifier: Apache-2.0
#include "core/profile/recorder.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <new>
#include <thread>

#include "core/base/platform.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

constinit std::atomic<uint32_t> g_profile_session{0};

namespace {

constexpr size_t kChunkEvents = 256;
constexpr size_t kMaxLabels = 65536;
constexpr int64_t kLongEnoughNs = 10'000'000;  // long enough to measure the rate of the ticks

struct Chunk {
  std::array<ProfileEvent, kChunkEvents> events;
  size_t count = 0;
  size_t capacity = kChunkEvents;
  std::unique_ptr<Chunk> next;
};

// The log of one thread. The thread owns the log while `busy`; Stop owns it while no recording runs.
struct ThreadLog {
  std::atomic<bool> busy{false};
  std::unique_ptr<Chunk> first;
  Chunk* last = nullptr;
  uint64_t left_out = 0;
  ProfileThread thread;
  std::atomic<bool> ended{false};
};

struct Clock {
  uint64_t ticks = 0;
  int64_t steady_ns = 0;

  static Clock Now() {
    // The least interrupted one of three readings is used.
    Clock best;
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < 3; ++i) {
      const uint64_t before = Ticks();
      const int64_t steady_ns = SteadyNanoseconds();
      const uint64_t width = Ticks() - before;
      if (width < best_width) best = {before + width / 2, steady_ns};
      best_width = std::min(best_width, width);
    }
    return best;
  }
};

struct State {
  std::atomic<int64_t> budget{0};  // events for which chunks may still be made
  Mutex mutex;
  std::vector<std::shared_ptr<ThreadLog>> logs CALLOUT_GUARDED_BY(mutex);
  std::map<std::string, uint32_t> labels CALLOUT_GUARDED_BY(mutex);
  uint32_t last_session CALLOUT_GUARDED_BY(mutex) = 0;
  Clock begin CALLOUT_GUARDED_BY(mutex);
  double begin_wall CALLOUT_GUARDED_BY(mutex) = 0;
};

State& GetState() {
  static State* const state = new State;  // leaked: threads end during static destruction
  return *state;
}

thread_local bool t_delivers = false;

// Registers the thread's log. A log without events ends with its thread; any other log ends when Stop takes its events.
class LogOwner {
 public:
  LogOwner() : log_(std::make_shared<ThreadLog>()) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    log_->thread = {ThreadNumber(), name, t_delivers};
    State& state = GetState();
    MutexLock lock(state.mutex);
    std::erase_if(state.logs,
                  [](const auto& log) { return log->ended.load(std::memory_order_acquire) && !log->first; });
    state.logs.push_back(log_);
  }
  ~LogOwner() { log_->ended.store(true, std::memory_order_release); }  // pairs with the acquire in StopRecording
  LogOwner(const LogOwner&) = delete;
  LogOwner& operator=(const LogOwner&) = delete;
  ThreadLog& log() { return *log_; }

 private:
  const std::shared_ptr<ThreadLog> log_;
};

ThreadLog& OwnLog() {
  thread_local LogOwner owner;
  return owner.log();
}

// Returns a chunk out of the budget, or null.
std::unique_ptr<Chunk> NewChunk() {
  std::atomic<int64_t>& budget = GetState().budget;
  const int64_t left = budget.fetch_sub(kChunkEvents, std::memory_order_relaxed);
  if (left <= 0) {
    budget.fetch_add(kChunkEvents, std::memory_order_relaxed);
    return nullptr;
  }
  // Without memory for a chunk, events are left out as if the budget were used up.
  std::unique_ptr<Chunk> chunk(new (std::nothrow) Chunk);
  if (chunk == nullptr) return nullptr;
  chunk->capacity = std::min(kChunkEvents, static_cast<size_t>(left));
  return chunk;
}

void Append(ThreadLog& log, const ProfileEvent& event) {
  if (log.last == nullptr || log.last->count == log.last->capacity) [[unlikely]] {
    std::unique_ptr<Chunk> chunk = log.left_out > 0 ? nullptr : NewChunk();
    if (chunk == nullptr) {
      ++log.left_out;
      return;
    }
    std::unique_ptr<Chunk>& place = log.last == nullptr ? log.first : log.last->next;
    place = std::move(chunk);
    log.last = place.get();
  }
  log.last->events[log.last->count++] = event;
}

// Moves a log's events to the recording.
void Take(ThreadLog& log, Recording& recording) {
  const auto thread = static_cast<uint32_t>(recording.threads.size());
  recording.left_out += log.left_out;
  if (log.first != nullptr) recording.threads.push_back(log.thread);
  for (std::unique_ptr<Chunk> chunk = std::move(log.first); chunk != nullptr;) {
    for (size_t i = 0; i < chunk->count; ++i) {
      recording.events.push_back(chunk->events[i]);
      recording.events.back().thread = thread;
    }
    std::unique_ptr<Chunk> next = std::move(chunk->next);
    chunk = std::move(next);
  }
  log.last = nullptr;
  log.left_out = 0;
}

// Converts ticks to nanoseconds since `begin`.
void ConvertTimes(const Clock& begin, const Clock& end, std::vector<ProfileEvent>& events) {
  constexpr uint64_t kManyTicks = uint64_t{1} << 40;
  double rate = TicksToNanoseconds(kManyTicks) / static_cast<double>(kManyTicks);
  const int64_t elapsed_ns = end.steady_ns - begin.steady_ns;
  if (elapsed_ns > kLongEnoughNs) rate = static_cast<double>(elapsed_ns) / static_cast<double>(end.ticks - begin.ticks);
  const auto convert = [&](int64_t ticks) {
    return static_cast<int64_t>(static_cast<double>(ticks - static_cast<int64_t>(begin.ticks)) * rate);
  };
  for (ProfileEvent& event : events) {
    event.begin = convert(event.begin);
    event.end = convert(event.end);
    if (event.queued != 0) event.queued = convert(event.queued);
  }
}

}  // namespace

Status StartRecording(uint64_t max_events) {
  if (max_events < 1) return InvalidArgument("a recording's max_events must be at least 1, got 0");
  State& state = GetState();
  MutexLock lock(state.mutex);
  if (g_profile_session.load(std::memory_order_relaxed) != 0) {
    return FailedPrecondition("a profile is being recorded already, and there is one at a time in a process");
  }
  state.labels.clear();
  state.budget.store(static_cast<int64_t>(std::min<uint64_t>(max_events, INT64_MAX / 2)), std::memory_order_relaxed);
  if (++state.last_session == 0) ++state.last_session;
  state.begin = Clock::Now();
  state.begin_wall = WallSecondsAt(state.begin.ticks);
  // The release passes the budget to threads that record; seq_cst: pairs with RecordEvent.
  g_profile_session.store(state.last_session, std::memory_order_seq_cst);
  return OkStatus();
}

Result<Recording> StopRecording() {
  State& state = GetState();
  MutexLock lock(state.mutex);
  if (g_profile_session.exchange(0, std::memory_order_seq_cst) == 0) {
    return FailedPrecondition("no profile is being recorded");
  }
  const Clock end = Clock::Now();
  Recording recording;
  for (const auto& log : state.logs) {
    // seq_cst: either this load sees that the thread is inside RecordEvent, or the thread sees that the session is
    // over.
    while (log->busy.load(std::memory_order_seq_cst)) std::this_thread::yield();
    Take(*log, recording);
  }
  std::erase_if(state.logs, [](const auto& log) { return log->ended.load(std::memory_order_acquire); });
  recording.labels.resize(state.labels.size() + 1);
  for (auto& [label, number] : state.labels) recording.labels[number] = label;
  ConvertTimes(state.begin, end, recording.events);
  recording.duration_ns = end.steady_ns - state.begin.steady_ns;
  recording.begin_steady_ns = state.begin.steady_ns;
  recording.begin_wall_seconds = state.begin_wall;
  return recording;
}

void RecordEvent(uint32_t session, const ProfileEvent& event) {
  if (session == 0) return;  // no recording ran when the span began
  ThreadLog& log = OwnLog();
  log.busy.store(true, std::memory_order_seq_cst);  // pairs with the load in StopRecording
  if (g_profile_session.load(std::memory_order_seq_cst) == session) [[likely]]
    Append(log, event);
  log.busy.store(false, std::memory_order_release);  // pairs with the load in StopRecording
}

uint32_t ProfileLabel(uint32_t session, const std::string& label, std::atomic<uint64_t>& cache) {
  constexpr int kSessionShift = 32;
  if (session == 0) return 0;
  const uint64_t cached = cache.load(std::memory_order_relaxed);
  if (cached >> kSessionShift == session) [[likely]]
    return static_cast<uint32_t>(cached);
  State& state = GetState();
  MutexLock lock(state.mutex);
  if (g_profile_session.load(std::memory_order_relaxed) != session) return 0;  // over: the event will not be kept
  if (state.labels.size() >= kMaxLabels && !state.labels.contains(label)) return 0;
  const uint32_t number = state.labels.emplace(label, static_cast<uint32_t>(state.labels.size() + 1)).first->second;
  cache.store(uint64_t{session} << kSessionShift | number, std::memory_order_relaxed);
  return number;
}

void ProfileThreadDelivers() { t_delivers = true; }

}  // namespace callout::internal
