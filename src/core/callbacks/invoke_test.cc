// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/invoke.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "core/base/process_state.h"
#include "core/base/ticks.h"
#include "core/callbacks/call_statistics.h"
#include "core/callbacks/in_flight.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

class InvokeTest : public LiveCountTest {
 protected:
  InvokeTest() { ResetStats(); }

  static callout_call OnDevice(int32_t device_ordinal) {
    callout_call call = {};
    call.struct_size = sizeof(call);
    call.device_ordinal = device_ordinal;
    return call;
  }
  // Calls `callback`, and returns the increase of its time.
  static uint64_t TicksOfCall(FakeCallback& callback) {
    const uint64_t before = callback.stats().host_ticks.load();
    EXPECT_THAT(Invoke(callback, OnDevice(0)), IsOk());
    return callback.stats().host_ticks.load() - before;
  }
};

// Returns a callback that takes at least `least` ticks.
std::function<Status(const callout_call&)> Taking(uint64_t least) {
  return [least](const callout_call&) {
    const uint64_t start = Ticks();
    while (Ticks() - start < least) {
    }
    return OkStatus();
  };
}
constexpr uint64_t kShort = 1000;
constexpr uint64_t kLong = 5000;  // too long to be sampled

TEST_F(InvokeTest, CountsCallsAndBytes) {
  FakeCallback callback("InvokeTest.counts");
  TestBuffer in = TestBuffer::Zeros(DType::kFloat32, {8});
  TestBuffer out = TestBuffer::Zeros(DType::kInt8, {3});
  const callout_buffer args[] = {in.view(), in.view()};
  const callout_buffer results[] = {out.view()};
  callout_call call = OnDevice(0);
  call.num_args = 2;
  call.args = args;
  call.num_results = 1;
  call.results = results;
  EXPECT_THAT(Invoke(callback, call), IsOk());
  EXPECT_THAT(Invoke(callback, call), IsOk());
  EXPECT_EQ(callback.stats().calls(), 2U);
  EXPECT_EQ(callback.stats().bytes(), 2U * (32 + 32 + 3));
  EXPECT_EQ(callback.stats().errors.load(), 0U);
}

TEST_F(InvokeTest, FirstCallsAreAllTimed) {
  FakeCallback callback("InvokeTest.first");
  callback.on_call = Taking(kShort);
  for (int i = 0; i < 64; ++i) ASSERT_GE(TicksOfCall(callback), kShort) << i;
}

TEST_F(InvokeTest, ShortCallsAreCountedAndNowAndThenTimed) {
  constexpr uint64_t kCalls = 64 * 50;
  FakeCallback callback("InvokeTest.short");
  callback.on_call = Taking(kShort);
  uint64_t timed = 0;
  for (uint64_t i = 0; i < kCalls; ++i) timed += TicksOfCall(callback) > 0 ? 1 : 0;
  EXPECT_EQ(callback.stats().calls(), kCalls);
  EXPECT_LT(timed, kCalls / 2) << "calls that the machine made long are timed, too";
  // The sum estimates untimed calls by the timed ones. An early call that the machine delayed may stop the timing of up
  // to 16 calls.
  EXPECT_GE(callback.stats().host_ticks.load(), (kCalls - 16) * kShort);
}

TEST_F(InvokeTest, LongCallsAreAllTimed) {
  FakeCallback callback("InvokeTest.long");
  callback.on_call = Taking(kLong);
  for (int i = 0; i < 200; ++i) ASSERT_GE(TicksOfCall(callback), kLong) << i;
}

TEST_F(InvokeTest, CallsThatBecomeLongAreAllTimedSoon) {
  FakeCallback callback("InvokeTest.becomes_long");
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(Invoke(callback, OnDevice(0)), IsOk());
  callback.on_call = Taking(kLong);
  int calls = 1;
  while (TicksOfCall(callback) == 0) ++calls;
  EXPECT_LE(calls, 16);
  for (int i = 0; i < 100; ++i) ASSERT_GE(TicksOfCall(callback), kLong) << i;
}

TEST_F(InvokeTest, ErrorNamesCallbackAndDeviceAndKeepsItsCode) {
  FakeCallback callback("InvokeTest.error");
  callback.on_call = [](const callout_call&) { return Unavailable("try later"); };
  const Status status = Invoke(callback, OnDevice(2));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "callout: callback 'InvokeTest.error' failed on device 2: try later");
  EXPECT_EQ(Invoke(callback, OnDevice(-1)).message(), "callout: callback 'InvokeTest.error' failed: try later");
  EXPECT_EQ(callback.stats().calls(), 2U);
  EXPECT_EQ(callback.stats().errors.load(), 2U);
}

TEST_F(InvokeTest, ExceptionsOfEitherKindBecomeErrors) {
  FakeCallback callback("InvokeTest.throws");
  callback.on_call = [](const callout_call&) -> Status { throw std::runtime_error("std boom"); };
  EXPECT_THAT(Invoke(callback, OnDevice(0)), StatusIs(StatusCode::kInternal, "on device 0: std boom"));
  callback.on_call = [](const callout_call&) -> Status { throw 42; };
  EXPECT_THAT(Invoke(callback, OnDevice(0)),
              StatusIs(StatusCode::kInternal, "it threw something that is not a std::exception"));
  EXPECT_EQ(callback.stats().errors.load(), 2U);
}

TEST_F(InvokeTest, IsInFlightWhileItRuns) {
  FakeCallback callback("InvokeTest.in_flight");
  std::vector<InFlight> inside;
  callback.on_call = [&](const callout_call&) {
    inside = ReadInFlight();
    return OkStatus();
  };
  callout_call call = OnDevice(4);
  call.run_id = 7;
  EXPECT_THAT(Invoke(callback, call), IsOk());
  ASSERT_EQ(inside.size(), 1U);
  EXPECT_EQ(inside[0].activity, Activity::kCall);
  EXPECT_EQ(inside[0].callback_id, callback.id());
  EXPECT_EQ(inside[0].device_ordinal, 4);
  EXPECT_EQ(inside[0].run_id, 7);
  EXPECT_TRUE(ReadInFlight().empty());
}

TEST_F(InvokeTest, IsRefusedInAForkedChild) {
  FakeCallback callback("InvokeTest.fork");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Status status = Invoke(callback, OnDevice(0));
    const bool refused = status.code() == StatusCode::kFailedPrecondition && status.kind() == StatusKind::kFork &&
                         status.message().find(kForkText) != std::string_view::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(Invoke(callback, OnDevice(0)), IsOk());
}

}  // namespace
}  // namespace callout::internal
