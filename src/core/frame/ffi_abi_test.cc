// SPDX-License-Identifier: Apache-2.0
//
// The same handlers on runtimes of four ages.
#include "core/frame/ffi_abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "testing/fake_runtime.h"
#include "testing/frame_builder.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

XLA_FFI_Error* StatelessHandler(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return ToFfiError(frame->api, Unimplemented("executed"));
}

XLA_FFI_Error* StatefulHandler(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/true, &error)) return error;
  return nullptr;
}

struct CountedState final : SiteState {
  explicit CountedState(int& count) : alive(count) { ++alive; }
  ~CountedState() override { --alive; }
  int& alive;
};

class FfiAbiTest : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { EXPECT_EQ(FakeRuntime::live_errors(), 0); }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(GetParam());
  FrameBuilder builder_;
};

TEST_P(FfiAbiTest, MetadataAnswersTheLowerOfOwnAndHostsVersion) {
  const auto metadata = runtime_.QueryMetadata(&StatelessHandler);
  EXPECT_THAT(metadata.status, IsOk());
  EXPECT_EQ(metadata.major, 0);
  EXPECT_EQ(metadata.minor, std::min(3, GetParam()));
  EXPECT_EQ(metadata.state_type_id, 0);
}

TEST_P(FfiAbiTest, StatefulMetadataRegistersTheTypeOnceARuntime) {
  const auto first = runtime_.QueryMetadata(&StatefulHandler);
  EXPECT_THAT(first.status, IsOk());
  EXPECT_EQ(first.minor, std::min(3, GetParam()));
  EXPECT_GT(first.state_type_id, 0);
  const int64_t registered = FakeRuntime::registered_types();
  EXPECT_EQ(runtime_.QueryMetadata(&StatefulHandler).state_type_id, first.state_type_id);
  EXPECT_EQ(FakeRuntime::registered_types(), registered);
}

TEST_P(FfiAbiTest, WithoutAMetadataExtensionTheHandlerRuns) {
  FakeSite site(runtime_, nullptr, &StatelessHandler);
  EXPECT_THAT(site.Execute(builder_), StatusIs(StatusCode::kUnimplemented, "executed"));
}

TEST_P(FfiAbiTest, StateComesBackAndIsDestroyedWithItsSite) {
  (void)runtime_.QueryMetadata(&StatefulHandler);
  int alive = 0;
  {
    FakeSite site(runtime_, nullptr, nullptr);
    auto* const state = new CountedState(alive);
    EXPECT_THAT(TakeError(SetState(site.Frame(builder_, XLA_FFI_ExecutionStage_INSTANTIATE), state)), IsOk());
    XLA_FFI_Error* error = nullptr;
    EXPECT_EQ(GetState(site.Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE), &error), state);
    EXPECT_EQ(error, nullptr);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST_P(FfiAbiTest, StateOfASiteThatWasNotInstantiatedIsAnError) {
  (void)runtime_.QueryMetadata(&StatefulHandler);
  FakeSite site(runtime_, nullptr, nullptr);
  XLA_FFI_Error* error = nullptr;
  EXPECT_EQ(GetState(site.Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE), &error), nullptr);
  EXPECT_THAT(TakeError(error), StatusIs(StatusCode::kNotFound, "State is not set"));
}

TEST_P(FfiAbiTest, RuntimeThatRefusesTheStateLeavesItToTheCaller) {
  (void)runtime_.QueryMetadata(&StatefulHandler);
  int alive = 0;
  FakeSite site(runtime_, nullptr, nullptr);
  XLA_FFI_CallFrame* frame = site.Frame(builder_, XLA_FFI_ExecutionStage_INSTANTIATE);
  ASSERT_THAT(TakeError(SetState(frame, new CountedState(alive))), IsOk());
  const auto second = std::make_unique<CountedState>(alive);
  EXPECT_THAT(TakeError(SetState(frame, second.get())),
              StatusIs(StatusCode::kFailedPrecondition, "State is already set"));
  EXPECT_EQ(alive, 2);
}

TEST_P(FfiAbiTest, ErrorsKeepCodeAndText) {
  XLA_FFI_Error* error = ToFfiError(runtime_.api(), NotFound("where is it"));
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(TakeError(error), StatusIs(StatusCode::kNotFound, "where is it"));
  EXPECT_EQ(ToFfiError(runtime_.api(), OkStatus()), nullptr);
}

TEST_P(FfiAbiTest, ErrorsReachXlaAsUtf8) {
  XLA_FFI_Error* error = ToFfiError(runtime_.api(), NotFound("where is \xFF"));
  EXPECT_THAT(TakeError(error), StatusIs(StatusCode::kNotFound, "where is \xEF\xBF\xBD"));
}

TEST_P(FfiAbiTest, ForeignErrorsBecomeStatusesAndAreDestroyed) {
  const StatusCode expected = GetParam() >= 4 ? StatusCode::kDataLoss : StatusCode::kInternal;
  XLA_FFI_Error* error = ToFfiError(runtime_.api(), Status(StatusCode::kDataLoss, "bits fell off"));
  EXPECT_THAT(FromFfiError(runtime_.api(), error), StatusIs(expected, "bits fell off"));
  EXPECT_THAT(FromFfiError(runtime_.api(), nullptr), IsOk());
}

TEST_P(FfiAbiTest, DeviceAndRunAreWhatTheRuntimeSays) {
  FakeSite site(runtime_, nullptr, nullptr);
  site.device_ordinal = 3;
  site.run_id = int64_t{1} << 40;
  XLA_FFI_CallFrame* frame = site.Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE);
  EXPECT_EQ(DeviceOrdinal(frame), 3);
  EXPECT_EQ(RunId(frame), int64_t{1} << 40);
  site.run_id = -1;  // XLA draws all bits of a run id
  EXPECT_EQ(RunId(frame), INT64_MAX);
}

TEST_P(FfiAbiTest, DeviceAndRunAreUnknownWhereTheRuntimeDoesNotSay) {
  FakeSite site(runtime_, nullptr, nullptr);
  site.device_ordinal.reset();
  site.run_id.reset();
  XLA_FFI_CallFrame* frame = site.Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE);
  EXPECT_EQ(DeviceOrdinal(frame), -1);
  EXPECT_EQ(RunId(frame), 0);
}

INSTANTIATE_TEST_SUITE_P(Minors, FfiAbiTest, ::testing::Values(2, 3, 4, 5));

// Writes a status in a process of the test's own, because runtimes are never forgotten.
void Tell(const Status& status) {
  std::fprintf(stderr, "%d %s; ", static_cast<int>(status.code()), status.c_message());
}

TEST(FfiAbiRuntimesDeathTest, NinthRuntimeIsRefusedAndSaysSo) {
  const auto fill = [] {
    for (int i = 0; i < 8; ++i) (void)FakeRuntime::New(3).QueryMetadata(&StatefulHandler);
    Tell(FakeRuntime::New(3).QueryMetadata(&StatefulHandler).status);
    std::_Exit(0);
  };
  EXPECT_EXIT(fill(), ::testing::ExitedWithCode(0), "8 callout: more than 8 XLA runtimes in one process");
}

TEST(FfiAbiRuntimesDeathTest, RuntimeThatRefusesTheTypeIsAskedAgain) {
  const auto ask_twice = [] {
    const FakeRuntime& runtime = FakeRuntime::New(5);
    FakeRuntime::FailNextTypeRegister("no room for types");
    Tell(runtime.QueryMetadata(&StatefulHandler).status);
    Tell(runtime.QueryMetadata(&StatefulHandler).status);
    std::_Exit(0);
  };
  EXPECT_EXIT(ask_twice(), ::testing::ExitedWithCode(0), "3 no room for types; 0 ;");
}

TEST(FfiAbiRuntimesTest, RuntimeThatNeverAskedForMetadataHasNoState) {
  FakeSite site(FakeRuntime::New(4), nullptr, nullptr);
  FrameBuilder builder;
  XLA_FFI_CallFrame* frame = site.Frame(builder, XLA_FFI_ExecutionStage_EXECUTE);
  XLA_FFI_Error* error = nullptr;
  EXPECT_EQ(GetState(frame, &error), nullptr);
  EXPECT_THAT(TakeError(error), StatusIs(StatusCode::kInternal, "on a runtime that never instantiated it"));
  int alive = 0;
  CountedState state(alive);
  EXPECT_THAT(TakeError(SetState(frame, &state)), StatusIs(StatusCode::kInternal, "never instantiated"));
}

class FfiAttributesTest : public ::testing::Test {
 protected:
  const XLA_FFI_Attrs& Attrs() { return site_.Frame(builder_, XLA_FFI_ExecutionStage_INSTANTIATE)->attrs; }

  FrameBuilder builder_;
  FakeSite site_{FakeRuntime::ForMinor(5), nullptr, nullptr};
};

TEST_F(FfiAttributesTest, NumbersAreFoundByName) {
  builder_.StringAttr("callback", "scale").Int64Attr("every", 3).Int64Attr("z", -1).Int64Attr("ever", 1);
  EXPECT_THAT(Int64Attribute(Attrs(), "every", 1), IsOkAndHolds(3));
  EXPECT_THAT(Int64Attribute(Attrs(), "z", 1), IsOkAndHolds(-1));
  EXPECT_THAT(Int64Attribute(Attrs(), "every_", 17), IsOkAndHolds(17));
}

TEST_F(FfiAttributesTest, OfAnotherTypeAreRefused) {
  builder_.StringAttr("every", "3").Int32Attr("min_interval_ns", 3).Int64ArrayAttr("on_full", {1});
  EXPECT_THAT(Int64Attribute(Attrs(), "every", 1),
              StatusIs(StatusCode::kInvalidArgument, "callout: attribute 'every' must be a 64-bit integer"));
  EXPECT_THAT(Int64Attribute(Attrs(), "min_interval_ns", 1),
              StatusIs(StatusCode::kInvalidArgument, "'min_interval_ns'"));
  EXPECT_THAT(Int64Attribute(Attrs(), "on_full", 1), StatusIs(StatusCode::kInvalidArgument, "'on_full'"));
}

class ThreadPoolTest : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { EXPECT_EQ(FakeRuntime::live_errors(), 0); }

  XLA_FFI_CallFrame* Frame() { return site_->Frame(builder_, XLA_FFI_ExecutionStage_EXECUTE); }
  // Returns a task that notes its thread, and that is alive as long as `alive_` is shared.
  std::function<void()> Task() {
    return [this, alive = alive_] {
      ++runs_;
      ran_on_ = std::this_thread::get_id();
    };
  }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(GetParam());
  std::unique_ptr<FakeSite> site_ = std::make_unique<FakeSite>(runtime_, nullptr, nullptr);
  FrameBuilder builder_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  int runs_ = 0;
  std::thread::id ran_on_;
};

TEST_P(ThreadPoolTest, ThreadsAreCounted) {
  site_->pool_threads = 5;
  EXPECT_EQ(PoolThreads(Frame()), 5);
}

TEST_P(ThreadPoolTest, WithoutAPoolThereAreNoThreadsAndTasksAreDropped) {
  EXPECT_EQ(PoolThreads(Frame()), 0);
  const StatusCode code = GetParam() >= 4 ? StatusCode::kUnimplemented : StatusCode::kInternal;
  EXPECT_THAT(ScheduleOnPool(Frame(), Task()), StatusIs(code, "No thread pool"));
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, RefusedTaskIsDropped) {
  site_->pool_threads = 2;
  site_->pool_mode = PoolMode::kRefuse;
  EXPECT_THAT(ScheduleOnPool(Frame(), Task()),
              StatusIs(GetParam() >= 4 ? StatusCode::kResourceExhausted : StatusCode::kInternal, "The pool is full"));
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, TaskRunsOnceOnAThreadOfThePool) {
  site_->pool_threads = 2;
  ASSERT_THAT(ScheduleOnPool(Frame(), Task()), IsOk());
  site_.reset();  // joins
  EXPECT_EQ(runs_, 1);
  EXPECT_NE(ran_on_, std::this_thread::get_id());
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, TaskMayRunBeforeScheduleReturns) {
  site_->pool_threads = 2;
  site_->pool_mode = PoolMode::kInline;
  ASSERT_THAT(ScheduleOnPool(Frame(), Task()), IsOk());
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(ran_on_, std::this_thread::get_id());
  EXPECT_EQ(alive_.use_count(), 1);
}

TEST_P(ThreadPoolTest, TaskMayRunWhenTheCallIsOver) {
  site_->pool_threads = 2;
  site_->pool_mode = PoolMode::kLate;
  ASSERT_THAT(ScheduleOnPool(Frame(), Task()), IsOk());
  const auto tasks = site_->TakeTasks();
  site_.reset();
  builder_ = {};
  EXPECT_EQ(runs_, 0);
  ASSERT_EQ(tasks.size(), 1U);
  tasks[0]();
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(alive_.use_count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Minors, ThreadPoolTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
