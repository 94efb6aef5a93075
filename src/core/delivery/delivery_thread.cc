// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/delivery_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cfenv>
#include <exception>
#include <system_error>
#include <utility>

#include "core/base/block_pool.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/ticks.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/invoke.h"
#include "core/delivery/tap_site.h"
#include "core/frame/buffer.h"
#include "core/profile/recorder.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxFirst = 8;

}  // namespace

void DeliveryErrors::Add(const Callback& callback, int32_t device_ordinal, const Status& status) {
  const std::string text = DescribeFailure(callback, device_ordinal, status);
  if (!callback.stats().tap_error_logged.exchange(true, std::memory_order_relaxed)) {
    Log(LogLevel::kError,
        text + "\nFurther errors of this callback are counted, not logged; barrier_wait() raises them.",
        callback.log_source());
  }
  MutexLock lock(mutex_);
  ++report_.count;
  if (report_.first.size() < kMaxFirst) report_.first.push_back(text);
  report_.last = text;
  report_.last_code = status.code();
}

DeliveryErrorReport DeliveryErrors::Take() {
  MutexLock lock(mutex_);
  return std::exchange(report_, {});
}

namespace {

using std::chrono::steady_clock;

// A batch ends after so long, so that barriers see progress. After so many records it ends where others may want the
// GIL or somebody waits; else it goes on, since each batch is a write of each file.
constexpr int kBatchRecords = 256;
constexpr double kBatchNanoseconds = 2e6;
// Room is given back this often inside a batch, for producers that wait with large records.
constexpr uint64_t kPublishBytes = 1 << 20;

thread_local bool t_is_delivery_thread = false;

void DestroyRecord(RecordHeader& header) {
  for (uint32_t i = 0; i < header.num_buffers; ++i) FreeBlock(header.blocks()[i]);
  header.~RecordHeader();
}

[[gnu::noinline, gnu::cold]] void RecordDelivery(const ProfileSpan& span, const Callback& callback,
                                                 const Record& record, const Status& status) {
  ProfileEvent event = EventOf(ProfileKind::kDelivery, callback, record.device_ordinal, span.session());
  event.queued = static_cast<int64_t>(record.ticks);
  event.bytes = TotalBytes(record.buffers);
  event.flow = FlowOf(event.worker, record.device_ordinal, record.sequence);
  event.failed = !status.ok();
  span.End(event);
}

[[gnu::noinline, gnu::cold]] void RecordLevel(const BoundedQueue& queue) {
  const ProfileSpan now;
  now.End({.level = queue.Stats().pending_bytes,
           .device = queue.name().device_ordinal,
           .kind = ProfileKind::kQueue,
           .worker = queue.name().worker});
}

void LogRecord(const Callback& callback, const Record& record) {
  std::string text = "record of '" + callback.label() + "' received from device ";
  text += std::to_string(record.device_ordinal) + ":";
  for (const callout_buffer& buffer : record.buffers) text += " " + ShapeString(buffer);
  Log(LogLevel::kDebug, text, callback.log_source());
}

}  // namespace

bool DeliveryThread::IsCurrent() { return t_is_delivery_thread; }

DeliveryThread::DeliveryThread(std::string name, BatchGate gate, DeliveryErrors& errors)
    : name_(std::move(name)), gate_(gate), errors_(errors) {}

DeliveryThread::~DeliveryThread() { Stop(steady_clock::time_point::max()); }

BoundedQueue* DeliveryThread::AddQueue(uint64_t capacity_bytes, QueueName name) {
  MutexLock lock(mutex_);
  queues_.push_back(std::make_unique<BoundedQueue>(capacity_bytes, wakeup_, name));
  num_queues_.store(queues_.size(), std::memory_order_seq_cst);  // pairs with HasWork, see Wakeup::Notify
  return queues_.back().get();
}

std::vector<BoundedQueue*> DeliveryThread::Queues() const {
  MutexLock lock(mutex_);
  std::vector<BoundedQueue*> queues;
  for (const auto& queue : queues_) queues.push_back(queue.get());
  return queues;
}

void DeliveryThread::Start() {
  MutexLock lock(mutex_);
  StartUnlessRunning();
}

void DeliveryThread::EndParking() {
  MutexLock lock(mutex_);
  // Stop may have come meanwhile, and who stopped it may be the queues' consumer now.
  if (parked_.load(std::memory_order_relaxed)) StartUnlessRunning();
}

void DeliveryThread::StartUnlessRunning() {
  if (running_ || stopping_ > 0) return;
  if (thread_.joinable()) thread_.join();
  stopped_ = false;
  stop_.store(false, std::memory_order_relaxed);   // the thread's start publishes it
  parked_.store(true, std::memory_order_seq_cst);  // where no thread is to be had, whoever comes next tries again
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), "callout: cannot start the thread '" + name_ + "', which delivers taps");
  }
  running_ = true;
  parked_.store(false, std::memory_order_seq_cst);
}

void DeliveryThread::StartIfParkedOrLater() noexcept {
  try {
    StartIfParked();
  } catch (const std::exception&) {  // no thread or no memory
  }
}

void DeliveryThread::Park() {
  (void)End(steady_clock::time_point::max(), /*parked=*/true);
  // Whoever commits a record now sees that it has to start the thread; one that came before that is seen here.
  for (const BoundedQueue* queue : Queues()) {
    if (queue->HasUndelivered()) return StartIfParkedOrLater();
  }
}

bool DeliveryThread::Stop(steady_clock::time_point deadline) { return End(deadline, /*parked=*/false); }

bool DeliveryThread::End(steady_clock::time_point deadline, bool parked) {
  std::thread ended;
  {
    MutexLock lock(mutex_);
    ++stopping_;  // nobody starts it meanwhile, nor clears `parked_`
    stopped_ = stopped_ || !parked;
    parked_.store(!stopped_, std::memory_order_seq_cst);
    stop_.store(true, std::memory_order_seq_cst);
    wakeup_.Interrupt();
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    while (running_) {
      if (deadline == steady_clock::time_point::max()) {
        progress_.wait(mutex_);
      } else if (progress_.wait_until(mutex_, deadline) == std::cv_status::timeout && running_) {
        break;
      }
    }
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    --stopping_;
    if (running_) return false;
    ended = std::move(thread_);
  }
  if (ended.joinable()) ended.join();
  return true;
}

bool DeliveryThread::WaitFor(const BoundedQueue& queue, uint64_t ticket, steady_clock::time_point deadline) {
  if (queue.delivered() >= ticket) return true;
  StartIfParked();
  MutexLock lock(mutex_);
  waiters_.fetch_add(1, std::memory_order_seq_cst);  // before reading `delivered`: pairs with DrainOnce
  bool done = true;
  while (queue.delivered() < ticket) {
    wakeup_.Interrupt();
    if (deadline == steady_clock::time_point::max()) {
      progress_.wait(mutex_);
    } else if (progress_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      done = queue.delivered() >= ticket;
      break;
    }
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return done;
}

bool DeliveryThread::running() const {
  MutexLock lock(mutex_);
  return running_;
}

void DeliveryThread::Run() {
  t_is_delivery_thread = true;
  pthread_setname_np(pthread_self(), name_.c_str());
  ProfileThreadDelivers();
  // A thread inherits its parent's floating-point mode, and XLA runs programs with subnormal numbers off.
  std::fesetenv(FE_DFL_ENV);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // naps end within a microsecond of their time, not within 50
  constexpr uint64_t kManyTicks = uint64_t{1} << 40;
  const double nanoseconds = std::max(TicksToNanoseconds(kManyTicks), 1.0);
  batch_ticks_ = static_cast<uint64_t>(kBatchNanoseconds / nanoseconds * static_cast<double>(kManyTicks));
  while (!stop_.load(std::memory_order_seq_cst)) {
    if (HasWork()) {
      if (!DrainOnce()) break;
    } else if (const Naps::Duration nap = naps_.Next(); nap > Naps::Duration::zero()) {
      wakeup_.Nap(nap);
    } else {
      wakeup_.Sleep([this] { return HasWork() || stop_.load(std::memory_order_seq_cst); });
    }
  }
  if (gate_.end != nullptr) gate_.end();
  MutexLock lock(mutex_);
  running_ = false;
  progress_.notify_all();
}

// Takes no lock: it is asked under the wakeup's, which others take while they hold mutex_.
bool DeliveryThread::HasWork() const {
  if (own_queues_.size() != num_queues_.load(std::memory_order_seq_cst)) return true;
  return std::any_of(own_queues_.begin(), own_queues_.end(), [](BoundedQueue* queue) { return queue->HasWork(); });
}

bool DeliveryThread::DrainOnce() {
  if (own_queues_.size() != num_queues_.load(std::memory_order_relaxed)) own_queues_ = Queues();  // under their lock
  const ProfileSpan span;
  if (gate_.enter != nullptr) {
    if (!gate_.enter()) return false;
    if (span.on()) [[unlikely]]
      span.End({.kind = ProfileKind::kGilWait});
  }
  for (BoundedQueue* queue : own_queues_) DrainQueue(*queue);
  Flush();  // before PublishProgress: when a barrier returns, sinks have written what it waited for
  if (gate_.leave != nullptr) gate_.leave();
  for (BoundedQueue* queue : own_queues_) {
    if (span.on() && queue->HasUnpublished()) [[unlikely]] {
      queue->PublishRoom();
      RecordLevel(*queue);  // before whoever waits for these records may end the profile
    }
    queue->PublishProgress();
  }
  if (waiters_.load(std::memory_order_seq_cst) > 0) {
    MutexLock lock(mutex_);
    progress_.notify_all();
  }
  return true;
}

void DeliveryThread::Flush() {
  for (const auto& callback : to_flush_) {
    const ProfileSpan span;
    const Status status = Guarded([&] { return callback->Flush(); });
    if (span.on()) [[unlikely]]
      span.End(EventOf(ProfileKind::kFlush, *callback, -1, span.session()));
    if (!status.ok()) AddError(*callback, -1, status);
  }
  to_flush_.clear();
}

void DeliveryThread::DrainQueue(BoundedQueue& queue) {
  const uint64_t start = Ticks();
  uint64_t unpublished = 0;
  for (int n = 1;; ++n) {
    RecordHeader* header = queue.Peek();
    if (header == nullptr) return;
    const uint64_t charged = header->charged_bytes;
    Deliver(*header);
    queue.Pop(header);
    naps_.Count(charged);
    DestroyRecord(*header);
    unpublished += charged;
    const bool are_many = n % kBatchRecords == 0;
    if (are_many && (gate_.enter != nullptr || waiters_.load(std::memory_order_relaxed) > 0)) return;
    if (are_many || unpublished >= kPublishBytes) {
      queue.PublishRoom();
      unpublished = 0;
    }
    if (stop_.load(std::memory_order_relaxed) || Ticks() - start > batch_ticks_) return;
  }
}

void DeliveryThread::Deliver(RecordHeader& header) {
  TapSite& site = *header.site;
  if (header.kind == RecordKind::kRetireSite) {
    // Pairs with that of the other threads: whoever is last comes behind all that they did with the site.
    if (site.retiring.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &site;
    return;
  }
  if (header.kind == RecordKind::kLost) return;
  Callback& callback = *site.callback;
  if (to_flush_.empty() || to_flush_.back() != site.callback) {
    if (std::find(to_flush_.begin(), to_flush_.end(), site.callback) == to_flush_.end())
      to_flush_.push_back(site.callback);
  }
  std::span<const callout_buffer> buffers(header.buffers(), header.num_buffers);
  const std::span<const int64_t> offsets = TakeOffsets(site.info, buffers);
  const Record record = {.site = &site.info,
                         .buffers = buffers,
                         .blocks = header.blocks(),
                         .offsets = offsets,
                         .device_ordinal = header.device_ordinal,
                         .run_id = header.run_id,
                         .sequence = header.sequence,
                         .ticks = header.ticks,
                         .step = site.info.has_step ? std::optional(header.step) : std::nullopt,
                         .unsent = header.unsent};
  if (LogEnabled(LogLevel::kDebug)) [[unlikely]]
    LogRecord(callback, record);
  const InFlightScope in_flight(Activity::kDelivery, callback.id(), header.device_ordinal, header.run_id,
                                callback.label().c_str());
  const ProfileSpan span;
  const uint64_t start = Ticks();
  const Status status = Guarded([&] { return callback.Deliver(record); });
  if (span.on()) [[unlikely]]
    RecordDelivery(span, callback, record, status);
  CallbackStats& stats = callback.stats();
  stats.host_ticks.fetch_add(Ticks() - start, std::memory_order_relaxed);
  stats.calls.fetch_add(1, std::memory_order_relaxed);
  stats.bytes.fetch_add(TotalBytes(record.buffers), std::memory_order_relaxed);
  if (!status.ok()) AddError(callback, header.device_ordinal, status);
}

void DeliveryThread::AddError(const Callback& callback, int32_t device_ordinal, const Status& status) {
  callback.stats().errors.fetch_add(1, std::memory_order_relaxed);
  errors_.Add(callback, device_ordinal, status);
}

}  // namespace callout::internal
