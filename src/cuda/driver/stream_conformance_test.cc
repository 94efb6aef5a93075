// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstring>
#include <future>

#include "testing/cuda_conformance.h"

namespace callout::internal::cuda {
namespace {

class StreamConformance : public DriverConformance {
 protected:
  /// Queues a host function that returns when `open` is set, and so keeps the stream busy.
  void Block(CUstream stream, std::promise<void>& open) {
    EXPECT_EQ(driver().LaunchHostFunc(
                  stream, [](void* promise) { static_cast<std::promise<void>*>(promise)->get_future().wait(); }, &open),
              CUDA_SUCCESS);
  }
};

TEST_P(StreamConformance, RunsInOrder) {
  const Stream stream = NewStream();
  std::string order;
  const auto append = [](void* text) { static_cast<std::string*>(text)->push_back('.'); };
  const auto append_last = [](void* text) { static_cast<std::string*>(text)->push_back('|'); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(driver().LaunchHostFunc(stream.get(), append, &order), CUDA_SUCCESS);
  EXPECT_EQ(driver().LaunchHostFunc(stream.get(), append_last, &order), CUDA_SUCCESS);
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  EXPECT_EQ(order, "...|");
}

TEST_P(StreamConformance, DoNotWaitForEachOther) {
  const Stream blocked = NewStream();
  const Stream other = NewStream();
  std::promise<void> open;
  Block(blocked.get(), open);
  EXPECT_THAT(Synchronize(device(), other.get()), IsOk());
  EXPECT_EQ(driver().StreamQuery(blocked.get()), CUDA_ERROR_NOT_READY);
  open.set_value();
  EXPECT_THAT(Synchronize(device(), blocked.get()), IsOk());
}

TEST_P(StreamConformance, WaitForAnEventOfAnother) {
  const Stream first = NewStream();
  const Stream second = NewStream();
  const Event event = Take(CreateEvent(device()));
  EXPECT_EQ(driver().EventQuery(event.get()), CUDA_SUCCESS) << "what was never recorded has happened";
  std::promise<void> open;
  Block(first.get(), open);
  EXPECT_EQ(driver().EventRecord(event.get(), first.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().StreamWaitEvent(second.get(), event.get(), 0), CUDA_SUCCESS);
  EXPECT_EQ(driver().EventQuery(event.get()), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(driver().StreamQuery(second.get()), CUDA_ERROR_NOT_READY);
  open.set_value();
  EXPECT_THAT(Synchronize(device(), second.get()), IsOk());
  EXPECT_EQ(driver().EventQuery(event.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().EventSynchronize(event.get()), CUDA_SUCCESS);
}

TEST_P(StreamConformance, TheLegacyStreamRunsBehindBlockingOnesAndTheyBehindIt) {
  CUstream raw = nullptr;
  ASSERT_EQ(driver().StreamCreate(&raw, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  const Stream blocking(device(), raw);
  const Stream free_stream = NewStream();
  std::promise<void> open;
  Block(blocking.get(), open);
  std::atomic<bool> ran = false;
  const auto set = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
  EXPECT_EQ(driver().LaunchHostFunc(nullptr, set, &ran), CUDA_SUCCESS);
  EXPECT_THAT(Synchronize(device(), free_stream.get()), IsOk());
  EXPECT_EQ(driver().StreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(ran);
  open.set_value();
  EXPECT_THAT(Synchronize(device(), blocking.get()), IsOk());
  EXPECT_EQ(driver().StreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_TRUE(ran);
}

TEST_P(StreamConformance, WritesAValueBehindWhatWasQueuedBefore) {
  if (driver().StreamWriteValue32 == nullptr) GTEST_SKIP() << "the driver has no cuStreamWriteValue32";
  const Stream stream = NewStream();
  const PinnedMemory pinned = NewPinned(2 * sizeof(uint32_t));
  auto* const words = static_cast<uint32_t*>(pinned.get());
  words[0] = 0;
  words[1] = 0;
  const uint32_t source = 5;
  const DeviceMemory memory = NewDeviceMemory(sizeof(source));
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get(), &source, sizeof(source), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemcpyDtoHAsync(words, memory.get(), sizeof(source), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver().StreamWriteValue32(stream.get(), reinterpret_cast<CUdeviceptr>(words + 1), 6, 0), CUDA_SUCCESS);
  while (std::atomic_ref<uint32_t>(words[1]).load(std::memory_order_acquire) != 6) std::this_thread::yield();
  EXPECT_EQ(words[0], 5U);
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
}

TEST_P(StreamConformance, AHostFunctionMayNotCallTheDriver) {
  struct Asked {
    const Driver* driver;
    CUresult result = CUDA_SUCCESS;
  } asked{&driver()};
  const Stream stream = NewStream();
  const auto ask = [](void* data) {
    auto& out = *static_cast<Asked*>(data);
    CUdeviceptr memory = 0;
    out.result = out.driver->MemAlloc(&memory, 1);
  };
  EXPECT_EQ(driver().LaunchHostFunc(stream.get(), ask, &asked), CUDA_SUCCESS);
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  EXPECT_EQ(asked.result, CUDA_ERROR_NOT_PERMITTED);
}

TEST_P(StreamConformance, TimedEventsTellTheTimeBetween) {
  const Stream stream = NewStream();
  const Event start = Take(CreateEvent(device(), CU_EVENT_DEFAULT));
  const Event end = Take(CreateEvent(device(), CU_EVENT_DEFAULT));
  const Event timeless = Take(CreateEvent(device()));
  for (const Event* event : {&start, &end, &timeless}) {
    EXPECT_EQ(driver().EventRecord(event->get(), stream.get()), CUDA_SUCCESS);
  }
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  float milliseconds = -1;
  EXPECT_EQ(driver().EventElapsedTime(&milliseconds, start.get(), end.get()), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(driver().EventElapsedTime(&milliseconds, start.get(), timeless.get()), CUDA_ERROR_INVALID_HANDLE);
}

TEST_P(StreamConformance, IsDestroyedWithoutWaitingForItsWork) {
  Stream stream = NewStream();
  std::promise<void> open;
  std::promise<void> ran;
  Block(stream.get(), open);
  EXPECT_EQ(driver().LaunchHostFunc(
                stream.get(), [](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); }, &ran),
            CUDA_SUCCESS);
  stream.Reset();
  open.set_value();
  ran.get_future().wait();
  EXPECT_EQ(driver().CtxSynchronize(), CUDA_SUCCESS);
}

TEST_P(StreamConformance, CallsNeedAContext) {
  const Stream stream = NewStream();
  CUcontext popped = nullptr;
  ASSERT_EQ(driver().CtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, device().context());
  CUdeviceptr memory = 0;
  EXPECT_EQ(driver().MemAlloc(&memory, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(AllocateDevice(device(), 1), IsOk()) << "which the functions here make current";
  EXPECT_EQ(driver().CtxPushCurrent(popped), CUDA_SUCCESS);
}

TEST_P(StreamConformance, HandlesThatWereDestroyedAreNoticed) {
  CALLOUT_NEEDS_DOUBLE("a GPU's driver may crash");
  Stream stream = NewStream();
  CUstream raw = stream.get();
  stream.Reset();
  Reaper::Get().Flush();
  EXPECT_EQ(driver().StreamSynchronize(raw), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(driver().StreamDestroy(raw), CUDA_ERROR_INVALID_HANDLE);
}

CALLOUT_CUDA_CONFORMANCE(StreamConformance);

}  // namespace
}  // namespace callout::internal::cuda
