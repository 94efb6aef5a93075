// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/delivery_thread.h"

#include <algorithm>
#include <cfenv>
#include <exception>
#include <system_error>
#include <utility>

#include "core/base/block_pool.h"
#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/base/platform.h"
#include "core/base/status.h"
#include "core/base/ticks.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/probe.h"
#include "core/delivery/tap_rows.h"
#include "core/delivery/tap_site.h"
#include "core/frame/buffer.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxFirst = 8;

}  // namespace

void DeliveryErrors::Add(const Callback& callback, int32_t device_ordinal, const Status& status) {
  const Status failure = status.WithMessage(DescribeFailure(callback, device_ordinal, status));
  if (!callback.stats().tap_error_logged.exchange(true, std::memory_order_relaxed)) {
    Log(LogLevel::kError,
        std::string(failure.message()) +
            "\nFurther errors of this callback are counted, not logged; barrier_wait() raises them.",
        callback.log_source());
  }
  MutexLock lock(mutex_);
  ++report_.count;
  if (report_.first.size() < kMaxFirst) report_.first.push_back(failure);
  report_.last = failure;
}

DeliveryErrorReport DeliveryErrors::Take() {
  MutexLock lock(mutex_);
  return std::exchange(report_, {});
}

namespace {

using std::chrono::steady_clock;

// A batch ends after this time, so that barriers see progress. After this many records a batch ends if another thread
// may want the GIL or waits for progress; otherwise it goes on, since the end of each batch writes each file.
constexpr int kBatchRecords = 256;
constexpr double kBatchNanoseconds = 2e6;
// Room is returned this often inside a batch, for producers that wait with large records.
constexpr uint64_t kPublishBytes = 1 << 20;

thread_local bool t_is_delivery_thread = false;

void DestroyRecord(RecordHeader& header) {
  for (uint32_t i = 0; i < header.num_buffers; ++i) FreeBlock(header.blocks()[i]);
  header.~RecordHeader();
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
  text += Cat(record.device_ordinal, ":");
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
  // Stop may have come in between, and the caller of Stop may be the queues' consumer now.
  if (parked_.load(std::memory_order_relaxed)) StartUnlessRunning();
}

void DeliveryThread::StartUnlessRunning() {
  if (running_ || stopping_ > 0) return;
  if (thread_.joinable()) thread_.join();
  stopped_ = false;
  stop_.store(false, std::memory_order_relaxed);   // the thread's start publishes it
  parked_.store(true, std::memory_order_seq_cst);  // if no thread can be created, the next caller tries again
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
  // A producer that commits a record from now on sees that it has to start the thread; this loop finds earlier records.
  for (const BoundedQueue* queue : Queues()) {
    if (queue->HasUndelivered()) return StartIfParkedOrLater();
  }
}

bool DeliveryThread::Stop(steady_clock::time_point deadline) { return End(deadline, /*parked=*/false); }

bool DeliveryThread::End(steady_clock::time_point deadline, bool parked) {
  std::thread ended;
  {
    MutexLock lock(mutex_);
    ++stopping_;  // prevents other calls from starting the thread or clearing `parked_`
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
  NameThisThread(name_.c_str());
  ProfileThreadDelivers();
  // A thread inherits its parent's floating-point environment, and XLA runs programs with subnormal numbers off.
  std::fesetenv(FE_DFL_ENV);
  WakeOnTime();  // for precise naps
  constexpr uint64_t kManyTicks = uint64_t{1} << 40;
  const double nanoseconds = std::max(TicksToNanoseconds(kManyTicks), 1.0);
  batch_ticks_ = static_cast<uint64_t>(kBatchNanoseconds / nanoseconds * static_cast<double>(kManyTicks));
  while (!stop_.load(std::memory_order_seq_cst)) {
    if (HasWork()) {
      if (!DrainOnce()) break;
    } else if (const IdleBackoff::Duration nap = backoff_.Next(); nap > IdleBackoff::Duration::zero()) {
      wakeup_.TimedWait(nap);
    } else {
      wakeup_.Sleep([this] { return HasWork() || stop_.load(std::memory_order_seq_cst); });
    }
  }
  if (gate_.end != nullptr) gate_.end();
  MutexLock lock(mutex_);
  running_ = false;
  progress_.notify_all();
}

// HasWork takes no lock: Wakeup::Sleep calls it under the wakeup's lock, which other threads take while they hold
// mutex_.
bool DeliveryThread::HasWork() const {
  if (own_queues_.size() != num_queues_.load(std::memory_order_seq_cst)) return true;
  return std::any_of(own_queues_.begin(), own_queues_.end(), [](BoundedQueue* queue) { return queue->HasWork(); });
}

bool DeliveryThread::DrainOnce() {
  if (own_queues_.size() != num_queues_.load(std::memory_order_relaxed)) own_queues_ = Queues();  // takes the lock
  const ProfileSpan span;
  if (gate_.enter != nullptr) {
    if (!gate_.enter()) return false;
    if (span.on()) [[unlikely]]
      span.End({.kind = ProfileKind::kGilWait});
  }
  for (BoundedQueue* queue : own_queues_) DrainQueue(*queue);
  Flush();  // before PublishProgress: when a barrier returns, sinks have written the records that it waited for
  if (gate_.leave != nullptr) gate_.leave();
  for (BoundedQueue* queue : own_queues_) {
    if (span.on() && queue->HasUnpublished()) [[unlikely]] {
      queue->PublishRoom();
      RecordLevel(*queue);  // before a thread that waits for these records may end the profile
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
    if (status.ok()) continue;
    callback->stats().errors.fetch_add(1, std::memory_order_relaxed);
    errors_.Add(*callback, -1, status);
  }
  to_flush_.clear();
  last_receiver_ = nullptr;
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
    backoff_.Count(charged);
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
    // Pairs with the fetch_sub of the other threads: the last thread sees all that they did with the site.
    if (site.retiring.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &site;
    return;
  }
  if (header.kind == RecordKind::kLost) return;
  std::span<const callout_buffer> buffers(header.buffers(), header.num_buffers);
  const bool has_rows = header.kind == RecordKind::kRows;
  const std::span<const int64_t> offsets = has_rows ? std::span<const int64_t>() : TakeOffsets(site.info, buffers);
  const Record record = {.site = &site.info,
                         .buffers = buffers,
                         .blocks = header.blocks(),
                         .offsets = offsets,
                         .device_ordinal = header.device_ordinal,
                         .run_id = header.run_id,
                         .sequence = header.sequence,
                         .ticks = header.ticks,
                         .step = site.info.has_step && !has_rows ? std::optional(header.step) : std::nullopt,
                         .skipped = header.skipped};
  if (has_rows) [[unlikely]]
    return DeliverRows(site, record, static_cast<uint32_t>(header.step));
  DeliverOne(site, record);
}

void DeliveryThread::DeliverRows(const TapSite& site, const Record& whole, uint32_t rows) {
  timing_ = Probe::Timing::kSampled;  // two looks at the clock would take as long as the rest of a small record
  if (site.hand_over != 0) {
    DeliverMerged(whole);
  } else {
    RowReader reader(site, whole, rows);
    for (uint32_t row = 0; row < rows; ++row) DeliverOne(site, reader.Read(row, whole.sequence + row));
  }
  timing_ = Probe::Timing::kEach;
}

void DeliveryThread::DeliverMerged(const Record& whole) {
  const callout_buffer& list = whole.buffers.front();
  const std::span parts(static_cast<const RowsPart*>(list.data), list.size_bytes / sizeof(RowsPart));
  std::vector<RowReader> readers;
  std::vector<uint32_t> next(parts.size());
  readers.reserve(parts.size());
  for (const RowsPart& part : parts) {
    Record own = whole;
    own.buffers = whole.buffers.subspan(part.first_buffer, part.num_buffers);
    own.skipped = &part == &parts.back() ? whole.skipped : part.skipped;
    readers.emplace_back(*part.site, own, part.rows);
  }
  uint64_t sequence = whole.sequence;
  for (uint64_t turn = 0; turn != UINT64_MAX;) {
    uint64_t after = UINT64_MAX;
    for (size_t i = 0; i < parts.size(); ++i) {
      for (; next[i] < parts[i].rows && readers[i].TurnOf(next[i]) <= turn; ++next[i])
        DeliverOne(*parts[i].site, readers[i].Read(next[i], sequence++));
      if (next[i] < parts[i].rows) after = std::min<uint64_t>(after, readers[i].TurnOf(next[i]));
    }
    turn = after;
  }
}

void DeliveryThread::DeliverOne(const TapSite& site, const Record& record) {
  if (site.router == nullptr) [[likely]]
    return DeliverTo(site.callback, record);
  DeliverBehindHandle(site, record);
}

void DeliveryThread::DeliverBehindHandle(const TapSite& site, const Record& record) {
  const bool is_last = !record.buffers.empty() && last_receiver_ != nullptr && site.router == last_router_ &&
                       record.buffers.front().size_bytes == sizeof(Handle) &&
                       Handle::Of(record.buffers.front().data) == last_handle_;
  if (!is_last) {
    const Status found = FindReceiver(site, record);
    if (!found.ok()) {
      site.callback->stats().errors.fetch_add(1, std::memory_order_relaxed);
      return errors_.Add(*site.callback, record.device_ordinal, found);
    }
  }
  Record rest = record.BehindFirst();
  rest.site = site.behind_handle.get();
  DeliverTo(last_receiver_, rest);
}

Status DeliveryThread::FindReceiver(const TapSite& site, const Record& record) {
  last_receiver_ = nullptr;
  return Guarded([&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(last_receiver_, site.router->Find(record.buffers));
    last_router_ = site.router;
    last_handle_ = Handle::Of(record.buffers.front().data);
    return OkStatus();
  });
}

void DeliveryThread::DeliverTo(const std::shared_ptr<Callback>& receiver, const Record& record) {
  Callback& callback = *receiver;
  if (to_flush_.empty() || to_flush_.back() != receiver) {
    if (std::find(to_flush_.begin(), to_flush_.end(), receiver) == to_flush_.end()) to_flush_.push_back(receiver);
  }
  if (LogEnabled(LogLevel::kDebug)) [[unlikely]]
    LogRecord(callback, record);
  const Probe probe(Activity::kDelivery, callback, record.device_ordinal, record.run_id, timing_);
  const Status status = Guarded([&] { return callback.Deliver(record); });
  probe.Over(TotalBytes(record.buffers), !status.ok(), ProfileKind::kDelivery, [&](ProfileEvent& event) {
    event.queued = static_cast<int64_t>(record.ticks);
    event.flow = FlowOf(event.worker, record.device_ordinal, record.sequence);
  });
  if (!status.ok()) errors_.Add(callback, record.device_ordinal, status);
}

}  // namespace callout::internal
