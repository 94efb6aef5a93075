// SPDX-License-Identifier: Apache-2.0
#include "core/delivery/delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/base/block_pool.h"
#include "core/callbacks/call_statistics.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Sets the floating-point mode in which XLA runs programs.
void FlushSubnormals() {
#if defined(__x86_64__)
  constexpr unsigned int kFlushToZero = 0x8000;
  constexpr unsigned int kDenormalsAreZero = 0x40;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
  constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | kFlushToZero));
#endif
}

class DeliveryTest : public LiveCountTest {
 protected:
  DeliveryTest() { ResetStats(); }

  Status Push(TapSite& site, int64_t value, int32_t device_ordinal = 0) {
    TestBuffer buffer = TestBuffer::Scalar(value);
    const callout_buffer view = buffer.view();
    return delivery_.Push(site, {.buffers = {&view, 1}, .device_ordinal = device_ordinal});
  }
  void Drain() { ASSERT_THAT(delivery_.Drain(kForever), IsEmpty()); }

  static int64_t ValueOf(const Record& record) {
    int64_t value = 0;
    std::memcpy(&value, record.buffers[0].data, sizeof(value));
    return value;
  }

  Delivery delivery_;
};

// A copy of a record.
struct Seen {
  int32_t device_ordinal;
  int64_t run_id;
  uint64_t sequence;
  std::vector<std::vector<int64_t>> dims;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<bool> in_block;
};

Seen Copy(const Record& record) {
  Seen seen = {record.device_ordinal, record.run_id, record.sequence, {}, {}, {}};
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    const callout_buffer& buffer = record.buffers[i];
    const auto* data = static_cast<const uint8_t*>(buffer.data);
    seen.dims.emplace_back(buffer.dims, buffer.dims + buffer.rank);
    seen.bytes.emplace_back(data, data + buffer.size_bytes);
    seen.in_block.push_back(record.blocks[i] != nullptr);
  }
  return seen;
}

TEST_F(DeliveryTest, RecordIsACopyOfTheBuffers) {
  const auto callback = std::make_shared<FakeCallback>("copies");
  std::vector<Seen> seen;
  callback->on_deliver = [&](const Record& record) { return seen.push_back(Copy(record)), OkStatus(); };
  const auto site = MakeSite(callback);
  TestBuffer small = TestBuffer::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  TestBuffer scalar = TestBuffer::Scalar(int8_t{-1});
  TestBuffer empty = TestBuffer::Zeros(DType::kFloat64, {3, 0});
  TestBuffer border = TestBuffer(DType::kUint8, {4096}, std::vector<uint8_t>(4096, 7));
  TestBuffer large = TestBuffer(DType::kUint8, {4097}, std::vector<uint8_t>(4097, 9));
  std::vector<TestBuffer*> buffers = {&small, &scalar, &empty, &border, &large};
  std::vector<std::vector<uint8_t>> expected;
  std::vector<callout_buffer> views;
  for (TestBuffer* buffer : buffers) {
    expected.push_back(buffer->bytes());
    views.push_back(buffer->view());
  }
  EXPECT_THAT(delivery_.Push(*site, {.buffers = {views.data(), 5}, .device_ordinal = 2, .run_id = 77}), IsOk());
  for (TestBuffer* buffer : buffers) std::fill(buffer->bytes().begin(), buffer->bytes().end(), uint8_t{0});
  Drain();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].device_ordinal, 2);
  EXPECT_EQ(seen[0].run_id, 77);
  EXPECT_EQ(seen[0].sequence, 1U);
  EXPECT_EQ(seen[0].bytes, expected);
  EXPECT_THAT(seen[0].dims, ElementsAre(std::vector<int64_t>{2, 3}, std::vector<int64_t>{}, std::vector<int64_t>{3, 0},
                                        std::vector<int64_t>{4096}, std::vector<int64_t>{4097}));
  EXPECT_THAT(seen[0].in_block, ElementsAre(false, false, false, false, true));
}

TEST_F(DeliveryTest, RecordOfManyBuffersIsComplete) {
  const auto callback = std::make_shared<FakeCallback>("many");
  std::vector<Seen> seen;
  callback->on_deliver = [&](const Record& record) { return seen.push_back(Copy(record)), OkStatus(); };
  const auto site = MakeSite(callback);
  std::vector<TestBuffer> buffers;
  for (uint8_t i = 0; i < 50; ++i) buffers.push_back(TestBuffer(DType::kUint8, {i}, std::vector<uint8_t>(i, i)));
  std::vector<callout_buffer> views;
  for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
  EXPECT_THAT(delivery_.Push(*site, {.buffers = {views.data(), 50}}), IsOk());
  Drain();
  ASSERT_EQ(seen.size(), 1U);
  ASSERT_EQ(seen[0].bytes.size(), 50U);
  for (uint8_t i = 0; i < 50; ++i) EXPECT_EQ(seen[0].bytes[i], std::vector<uint8_t>(i, i));
}

TEST_F(DeliveryTest, ReceiverMayKeepABlock) {
  const auto callback = std::make_shared<FakeCallback>("keeps");
  void* kept = nullptr;
  callback->on_deliver = [&](const Record& record) {
    return kept = std::exchange(record.blocks[0], nullptr), OkStatus();
  };
  const auto site = MakeSite(callback);
  TestBuffer large = TestBuffer(DType::kUint8, {10'000}, std::vector<uint8_t>(10'000, 3));
  const callout_buffer view = large.view();
  EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view, 1}}), IsOk());
  Drain();
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(static_cast<const uint8_t*>(kept)[9'999], 3);
  FreeBlock(kept);
}

// XLA's threads have subnormal numbers switched off, and the first tap of such a thread starts the delivery thread.
TEST_F(DeliveryTest, SubnormalNumbersAreThere) {
  const auto callback = std::make_shared<FakeCallback>("subnormal");
  double seen = 0;
  callback->on_deliver = [&](const Record& record) {
    volatile float value = 0;
    std::memcpy(const_cast<float*>(&value), record.buffers[0].data, sizeof(value));
    seen = value;
    return OkStatus();
  };
  const auto site = MakeSite(callback);
  std::thread([&] {
    FlushSubnormals();
    TestBuffer buffer = TestBuffer::Scalar(-1e-38F);
    const callout_buffer view = buffer.view();
    EXPECT_THAT(delivery_.Push(*site, {.buffers = {&view, 1}}), IsOk());
  }).join();
  Drain();
  EXPECT_EQ(seen, static_cast<double>(-1e-38F));
}

TEST_F(DeliveryTest, EveryDeviceHasAQueueAndKeepsItsOrder) {
  const auto callback = std::make_shared<FakeCallback>("devices");
  std::map<int32_t, std::vector<int64_t>> values;
  callback->on_deliver = [&](const Record& record) {
    return values[record.device_ordinal].push_back(ValueOf(record)), OkStatus();
  };
  const auto site = MakeSite(callback);
  // 0, 64 and 2048 (the first device of a second process) share a slot of the table, and so do 63 and an unknown
  // device.
  const std::vector<int32_t> devices = {0, 1, 63, 64, 1000, 2048, 2049, -1};
  for (int64_t i = 0; i < 20; ++i) {
    for (const int32_t device : devices) EXPECT_THAT(Push(*site, i, device), IsOk());
  }
  Drain();
  ASSERT_EQ(values.size(), devices.size());
  for (const auto& [device, got] : values) {
    ASSERT_EQ(got.size(), 20U) << device;
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i) << device;
  }
  EXPECT_EQ(delivery_.QueueStatistics().size(), devices.size());
  EXPECT_EQ(delivery_.RunningThreads(), 1);
}

TEST_F(DeliveryTest, DevicesPushFromTheirOwnThreads) {
  const auto callback = std::make_shared<FakeCallback>("threads");
  std::vector<int64_t> last(4, -1);
  callback->on_deliver = [&](const Record& record) {
    auto& value = last[static_cast<size_t>(record.device_ordinal)];
    EXPECT_EQ(ValueOf(record), value + 1);
    value = ValueOf(record);
    return OkStatus();
  };
  const auto site = MakeSite(callback);
  std::vector<std::thread> devices;
  for (int32_t device = 0; device < 4; ++device) {
    devices.emplace_back([&, device] {
      for (int64_t i = 0; i < 500; ++i) EXPECT_THAT(Push(*site, i, device), IsOk());
    });
  }
  for (std::thread& device : devices) device.join();
  Drain();
  EXPECT_THAT(last, ElementsAre(499, 499, 499, 499));
}

TEST_F(DeliveryTest, SiteIsRetiredBehindItsRecordsOfAllDevices) {
  const int64_t sites = LiveCount(LiveKind::kSite);
  const auto callback = std::make_shared<BlockingCallback>("retires");
  auto site = MakeSite(callback);
  for (int32_t device = 0; device < 3; ++device) EXPECT_THAT(Push(*site, 0, device), IsOk());
  callback->WaitUntilEntered(1);
  delivery_.Retire(std::move(site));
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites + 1) << "records of it are still queued";
  callback->Open();
  Drain();
  EXPECT_EQ(callback->entered(), 3);
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites);
  EXPECT_EQ(callback.use_count(), 1);
}

TEST_F(DeliveryTest, SiteThatWasNeverUsedIsDestroyedAtOnce) {
  const int64_t sites = LiveCount(LiveKind::kSite);
  delivery_.Retire(MakeSite(std::make_shared<FakeCallback>("unused")));
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites);
}

TEST_F(DeliveryTest, RetiringIsNotARecord) {
  auto site = MakeSite(std::make_shared<FakeCallback>("counts"));
  EXPECT_THAT(Push(*site, 0), IsOk());
  delivery_.Retire(std::move(site));
  Drain();
  ASSERT_EQ(delivery_.QueueStatistics().size(), 1U);
  const QueueStats stats = delivery_.QueueStatistics()[0].stats;
  EXPECT_EQ(stats.records, 1U);
  EXPECT_EQ(stats.delivered, 1U);
}

TEST_F(DeliveryTest, ThrottledRecordsAreSkippedAndCounted) {
  const auto callback = std::make_shared<FakeCallback>("DeliveryTest.throttled");
  std::vector<int64_t> values;
  callback->on_deliver = [&](const Record& record) { return values.push_back(ValueOf(record)), OkStatus(); };
  const auto site = MakeSite(callback, {.every = 3});
  for (int64_t i = 0; i < 7; ++i) EXPECT_THAT(Push(*site, i), IsOk());
  Drain();
  EXPECT_THAT(values, ElementsAre(0, 3, 6));
  EXPECT_EQ(callback->stats().skips.load(), 4U);
  EXPECT_EQ(callback->stats().drops.load(), 0U);
}

TEST_F(DeliveryTest, BlockedPythonWorkerDoesNotDelayTheNativeWorker) {
  const auto python = std::make_shared<BlockingCallback>("python", Worker::kPython);
  const auto native = std::make_shared<BlockingCallback>("native", Worker::kNative);
  const auto python_site = MakeSite(python);
  const auto native_site = MakeSite(native);
  native->Open();
  EXPECT_THAT(Push(*python_site, 0), IsOk());
  python->WaitUntilEntered(1);
  EXPECT_THAT(Push(*native_site, 0), IsOk());
  native->WaitUntilEntered(1);  // hangs if the workers share a thread
  EXPECT_EQ(delivery_.RunningThreads(), 2);
  python->Open();
  Drain();
}

TEST_F(DeliveryTest, PythonThreadsShareTheDevices) {
  EXPECT_THAT(delivery_.Configure({.python_threads = 2}), IsOk());
  const auto callback = std::make_shared<BlockingCallback>("python", Worker::kPython);
  const auto site = MakeSite(callback);
  for (int32_t device = 0; device < 4; ++device) EXPECT_THAT(Push(*site, 0, device), IsOk());
  callback->WaitUntilEntered(2);  // hangs if one thread serves both
  EXPECT_EQ(delivery_.RunningThreads(), 2);
  callback->Open();
  Drain();
  EXPECT_EQ(callback->entered(), 4);
}

TEST_F(DeliveryTest, FailingTapsNeverFailTheProgram) {
  const LogCapture log;
  const auto callback = std::make_shared<FakeCallback>("DeliveryTest.fails");
  callback->on_deliver = [](const Record&) { return InternalError("cannot"); };
  const auto site = MakeSite(callback);
  for (int64_t i = 0; i < 3; ++i) EXPECT_THAT(Push(*site, i), IsOk());
  Drain();
  EXPECT_EQ(delivery_.TakeErrors().count, 3U);
  EXPECT_EQ(delivery_.TakeErrors().count, 0U);
}

TEST_F(DeliveryTest, DrainNamesWhatIsOutstanding) {
  const auto native = std::make_shared<BlockingCallback>("native", Worker::kNative);
  const auto python = std::make_shared<BlockingCallback>("python", Worker::kPython);
  const auto native_site = MakeSite(native);
  const auto python_site = MakeSite(python);
  EXPECT_THAT(Push(*native_site, 0, 3), IsOk());
  EXPECT_THAT(Push(*native_site, 1, 3), IsOk());
  EXPECT_THAT(Push(*python_site, 0, 0), IsOk());
  native->WaitUntilEntered(1);
  python->WaitUntilEntered(1);
  EXPECT_THAT(delivery_.Drain(steady_clock::now()), UnorderedElementsAre("2 records of the native queue of device 3",
                                                                         "1 records of the python queue of device 0"));
  native->Open();
  python->Open();
  Drain();
}

TEST_F(DeliveryTest, QueuesAreDescribed) {
  EXPECT_EQ(delivery_.DescribeQueues(), "Queues: none");
  EXPECT_EQ(delivery_.RunningThreads(), 0);
  const auto callback = std::make_shared<BlockingCallback>("described");
  const auto site = MakeSite(callback);
  EXPECT_THAT(Push(*site, 0, 1), IsOk());
  callback->WaitUntilEntered(1);
  EXPECT_THAT(delivery_.DescribeQueues(), HasSubstr("Queues: native device 1: 1 records, "));
  EXPECT_THAT(delivery_.DescribeQueues(), HasSubstr(" of 256000000 bytes"));
  callback->Open();
  Drain();
}

TEST_F(DeliveryTest, OptionsOutOfRangeAreRefused) {
  EXPECT_THAT(delivery_.Configure({.queue_bytes = kMinQueueBytes - 1}),
              StatusIs(StatusCode::kInvalidArgument, "queue_bytes must be at least 16000000, got 15999999"));
  EXPECT_THAT(delivery_.Configure({.python_threads = 0}), StatusIs(StatusCode::kInvalidArgument, "got 0"));
  EXPECT_THAT(delivery_.Configure({.python_threads = 65}), StatusIs(StatusCode::kInvalidArgument, "got 65"));
  const auto site = MakeSite(std::make_shared<FakeCallback>("options"));
  EXPECT_THAT(Push(*site, 0), IsOk());
  EXPECT_EQ(delivery_.QueueStatistics()[0].stats.capacity_bytes, DeliveryOptions{}.queue_bytes);
  EXPECT_THAT(delivery_.Configure({.queue_bytes = kMinQueueBytes}), IsOk());
  EXPECT_EQ(delivery_.QueueStatistics()[0].stats.capacity_bytes, kMinQueueBytes);
  Drain();
}

TEST_F(DeliveryTest, PushIsRefusedInAForkedChild) {
  const auto site = MakeSite(std::make_shared<FakeCallback>("fork"));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Status status = Push(*site, 0);
    _exit(status.code() == StatusCode::kFailedPrecondition ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace callout::internal
