// SPDX-License-Identifier: Apache-2.0
//
// Tests of callout.v1.call on CUDA. The host may not touch the memory of the software GPU's devices, so the results
// prove the copies; the tests check when they happen, in which order, and where to.
// src/core/ffi/call_conformance_test.cc tests what every platform does, call_errors_test.cc errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/callbacks/in_flight.h"
#include "testing/cuda_call_fixture.h"
#include "testing/spin.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaCallHandlerTest : public CudaCallTest {
 protected:
  /// Returns the driver functions that are called from now until the log is read, those in `wanted` only.
  std::vector<std::string> Calls(const std::set<std::string>& wanted) {
    std::vector<std::string> calls;
    std::istringstream log(fake()->log());
    for (std::string line; std::getline(log, line);) {
      const std::string name = line.substr(0, line.find_first_of(" ("));
      if (wanted.contains(name)) calls.push_back(name);
    }
    return calls;
  }
};

TEST_F(CudaCallHandlerTest, IsNotCaptured) {
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_cuda_call_execute).traits, 0U);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_cuda_check_execute).traits, 0U);
  EXPECT_GT(runtime_.QueryMetadata(&callout_v1_cuda_call_instantiate).state_type_id, 0);
  EXPECT_GT(runtime_.QueryMetadata(&callout_v1_cuda_check_instantiate).state_type_id, 0);
}

TEST_F(CudaCallHandlerTest, EachCopyBeginsWhereVectorInstructionsMayLoadIt) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice({1}, {1})).Arg(OnDevice({}, {5}));
  callback_->on_call = [](const callout_call& call) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(reinterpret_cast<uintptr_t>(call.args[i].data) % 64, 0U);
    return OkStatus();
  };
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
}

// Reports of hangs distinguish GPUs from CPU devices, which have the same numbers.
TEST_F(CudaCallHandlerTest, ItsThreadHoldsAGpuAsLongAsTheCallLasts) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer in = OnDevice({1}, {1}), out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  std::vector<bool> held;
  const auto read = [&held] {
    for (const InFlight& reading : ReadInFlight()) held.push_back(reading.holds_gpu);
  };
  callback_->on_call = [&](const callout_call& call) { return read(), AddOne(call); };
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  const InFlightScope behind(Activity::kCall, callback_->id(), 0, 0);
  read();
  EXPECT_THAT(held, ElementsAre(true, false));
}

TEST_F(CudaCallHandlerTest, OneWaitForAllCopies) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer a = OnDevice({1}, {1}), b = OnDevice({1}, {2});
  frame.Arg(a).Arg(a).Ret(b).Ret(b);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const std::set<std::string> wanted = {"cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamWriteValue32",
                                        "cuMemHostAlloc", "cuStreamSynchronize"};
  const size_t before = Calls(wanted).size();
  ASSERT_THAT(site->Execute(frame), IsOk());
  std::vector<std::string> calls = Calls(wanted);
  calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_THAT(calls, ElementsAre("cuMemHostAlloc", "cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync", "cuStreamWriteValue32",
                                 "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync"));
}

TEST_F(CudaCallHandlerTest, CallbackRunsWhenWhatCameBeforeHasRun) {
  for (const bool has_operands : {true, false}) {
    const auto site = NewSite();
    FrameBuilder frame = Frame();
    TestBuffer in = OnDevice({1}, {1});
    if (has_operands) frame.Arg(in);
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    std::atomic<bool> may_run{false};
    callback_->on_call = [&](const callout_call&) {
      EXPECT_TRUE(may_run.load());
      return OkStatus();
    };
    const int waits = fake()->calls("cuEventSynchronize");
    fake()->hold();
    std::thread caller([&] { EXPECT_THAT(site->Execute(frame), IsOk()); });
    SpinUntil([&] { return fake()->calls("cuEventSynchronize") > waits; });
    may_run = true;
    fake()->release();
    caller.join();
  }
}

TEST_F(CudaCallHandlerTest, CopiesOfResultsAreQueuedAndNotAwaited) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer in = OnDevice({1}, {1}), out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  callback_->on_call = [&](const callout_call& call) {
    fake()->hold();
    return AddOne(call);
  };
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  fake()->release();
  EXPECT_THAT(Read(out), ElementsAre(2));
}

TEST_F(CudaCallHandlerTest, ExecutableMayEndBeforeItsCopiesHaveRun) {
  auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer in = OnDevice({1}, {1}), out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  site.reset();
  EXPECT_THAT(Read(out), ElementsAre(2));
  EXPECT_EQ(Live(kSoftwareGpuPinnedMemory), 1) << "of the pool, for later programs";
}

TEST_F(CudaCallHandlerTest, ManyCallsPinOneBlock) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer value = OnDevice({1}, {0});
  frame.Arg(value).Ret(value);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int run = 0; run < 200; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(value), ElementsAre(200));
  EXPECT_EQ(fake()->calls("cuMemHostAlloc"), 1);
}

TEST_F(CudaCallHandlerTest, EachLaneIsACallOnItsPart) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64ArrayAttr("lane_dims", {3}).Int64ArrayAttr("lane_masks", {1, 0});
  TestBuffer in = OnDevice({3, 1}, {1, 2, 3}), shared = OnDevice({1}, {10}), out = OnDevice({3, 1}, {0, 0, 0});
  frame.Arg(in).Arg(shared).Ret(out);
  callback_->on_call = [](const callout_call& call) {
    EXPECT_EQ(call.args[0].rank, 1U);
    const auto value = [](const callout_buffer& buffer) { return *static_cast<const float*>(buffer.data); };
    *static_cast<float*>(call.results[0].data) = value(call.args[0]) * value(call.args[1]);
    return OkStatus();
  };
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(10, 20, 30));
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync"), 3) << "two, and the one of Read";
}

TEST_F(CudaCallHandlerTest, CallbackMayRunAProgramOfItsDevice) {
  const auto site = NewSite(), inner = NewSite();
  TestBuffer in = OnDevice({1}, {1}), between = OnDevice({1}, {0}), out = OnDevice({1}, {0});
  FrameBuilder frame = std::move(Frame().Arg(in).Ret(out)), inner_frame = std::move(Frame().Arg(in).Ret(between));
  ASSERT_THAT(inner->Instantiate(inner_frame), IsOk());
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  bool is_inside = false;
  callback_->on_call = [&](const callout_call& call) {
    if (!std::exchange(is_inside, true)) {
      EXPECT_THAT(inner->Execute(inner_frame), IsOk());
      EXPECT_THAT(Read(between), ElementsAre(2)) << "its stream goes on";
    }
    return AddOne(call);
  };
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(2));
}

TEST_F(CudaCallHandlerTest, CallbackMayMakeAnotherDeviceCurrent) {
  const auto site = NewSite();
  TestBuffer in = OnDevice({1}, {1}), out = OnDevice({1}, {0});
  FrameBuilder frame = std::move(Frame().Arg(in).Ret(out));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  callback_->on_call = [&](const callout_call& call) {
    EXPECT_EQ(device().driver().CtxPushCurrent(device(1).context()), cuda::CUDA_SUCCESS);
    return AddOne(call);
  };
  ASSERT_THAT(site->Execute(frame), IsOk());
  cuda::CUcontext popped = nullptr;
  EXPECT_EQ(device().driver().CtxPopCurrent(&popped), cuda::CUDA_SUCCESS);
  EXPECT_EQ(popped, device(1).context());
  EXPECT_THAT(Read(out), ElementsAre(2));
}

TEST_F(CudaCallHandlerTest, ThreadsRunOneExecutableAtOnce) {
  constexpr int kThreads = 4, kRounds = 50;
  const auto site = NewSite();
  FrameBuilder prototype = Frame();
  ASSERT_THAT(site->Instantiate(prototype), IsOk());
  std::vector<TestBuffer> values;
  for (int i = 0; i < kThreads; ++i) values.push_back(OnDevice({1}, {static_cast<float>(100 * i)}));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      TestBuffer& value = values[static_cast<size_t>(i)];
      FrameBuilder frame = std::move(Frame().Arg(value).Ret(value));
      for (int round = 0; round < kRounds; ++round) EXPECT_THAT(site->Execute(frame), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_THAT(Read(values[static_cast<size_t>(i)]), ElementsAre(static_cast<float>(100 * i + kRounds)));
  }
}

using ::testing::ElementsAre;

class CudaCheckHandlerTest : public CudaCallTest {
 protected:
  Status Check(FrameBuilder frame, int ordinal = 0) {
    frame.StringAttr("callback", "py:test.f");
    const auto site = NewCheckSite(ordinal);
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }
};

TEST_F(CudaCheckHandlerTest, ValuesPassOnTheDevice) {
  TestBuffer out = OnDevice({3}, {0, 0, 0}), in_place = OnDevice({1}, {5});
  FrameBuilder frame;
  frame.Arg(OnDevice<int32_t>({}, {0})).Arg(OnDevice({3}, {1, 2, 3})).Arg(in_place);
  frame.Arg(TestBuffer::Zeros(DType::kFloat32, {0}));
  frame.Ret(out).Ret(in_place).Ret(DType::kFloat32, {0});
  ASSERT_THAT(Check(std::move(frame)), IsOk());
  EXPECT_EQ(fake()->calls("cuMemcpyDtoDAsync"), 1);
  EXPECT_EQ(fake()->calls("cuMemcpyDtoHAsync"), 1);
  EXPECT_THAT(Read(out), ElementsAre(1, 2, 3));
  EXPECT_THAT(Read(in_place), ElementsAre(5));
}

TEST_F(CudaCheckHandlerTest, EachCallOfTheDriverThatFailsIsTheErrorOfTheProgram) {
  for (const char* function : {"cuDevicePrimaryCtxRetain", "cuMemHostAlloc", "cuMemcpyDtoHAsync",
                               "cuStreamWriteValue32", "cuMemcpyDtoDAsync"}) {
    cuda::PinnedPool::ReleaseIdle();  // Everything must be allocated anew.
    TestBuffer out = OnDevice({1}, {0});
    const auto frame = [&] {
      return std::move(FrameBuilder().Arg(OnDevice<int32_t>({}, {0})).Arg(OnDevice({1}, {1})).Ret(out));
    };
    FrameBuilder failing = frame();
    fake()->fail(function, 1, cuda::CUDA_ERROR_UNKNOWN);
    EXPECT_THAT(Check(std::move(failing)), StatusIs(StatusCode::kInternal, std::string(function)));
    EXPECT_THAT(Check(frame()), IsOk()) << "after " << function;
  }
}

}  // namespace
}  // namespace callout::internal
