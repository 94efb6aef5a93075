// SPDX-License-Identifier: Apache-2.0
//
// Tests that a run's context reaches the callbacks of the run, and lives as long as the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "testing/c_api_fixture.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;

// The result takes over the argument's memory.
constexpr char kTakesOver[] =
    "module @m { func.func public @main(%a: tensor<128x128xf32> {tf.aliasing_output = 0 : i32}) -> "
    "tensor<128x128xf32> {\n%0 = stablehlo.add %a, %a : tensor<128x128xf32>\nreturn %0 : tensor<128x128xf32> } }";
constexpr auto kForEver = std::chrono::seconds(60);  // only a defect waits for so long

class ContextOfARunTest : public internal::OneCpuClientTest {
 protected:
  LoadedExecutable Compile(const std::string& code, const std::string& name,
                           std::function<Status(const Call&)> function) {
    const Compiler compiler(client_);
    CompileOptions options;
    options.loaded_host_callbacks = {
        compiler.MakeLoadedHostCallback(FunctionCallback(name, std::move(function))).value()};
    return compiler.Compile({code}, options).value();
  }
  Buffer Filled(const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (const int64_t extent : dims) count *= extent;
    return Buffer::FromHost(client_, client_->devices()[0], dims, std::vector<float>(static_cast<size_t>(count), 0.5F))
        .value();
  }
};

// Runs a program from two threads; each callback waits until both runs are in a callback.
void TwoRunsSeeTheirOwn(const LoadedExecutable& executable, const Buffer& x, std::atomic<int>& seen) {
  std::vector<std::thread> threads;
  std::array<int, 2> requests = {0, 0};
  for (int& request : requests) {
    threads.emplace_back([&] {
      ExecuteOptions options;
      options.context = std::shared_ptr<int>(&request, [](int*) {});
      EXPECT_THAT(executable.Run({&x}, options), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(requests, ::testing::Each(1));
  EXPECT_EQ(seen, 2);
}

std::function<Status(const Call&)> CountInContext(std::atomic<int>& seen, std::promise<void>& both) {
  return [&seen, &both, met = both.get_future().share()](const Call& call) -> Status {
    ++*static_cast<int*>(call.context());
    if (++seen == 2) both.set_value();
    if (met.wait_for(kForEver) != std::future_status::ready) return InternalError("the other run does not come");
    if (call.num_results() > 0) call.result<float>(0)[0] = 0;
    return OkStatus();
  };
}

TEST_F(ContextOfARunTest, TwoRequestsAtOnceSeeTheirOwnOnTheThreadsOfTheirCallers) {
  std::atomic<int> seen{0};
  std::promise<void> both;
  const LoadedExecutable executable = Compile(testdata::Chain({"f"}), "f", CountInContext(seen, both));
  TwoRunsSeeTheirOwn(executable, Filled({4}), seen);
}

TEST_F(ContextOfARunTest, TwoRequestsAtOnceSeeTheirOwnOnThreadsOfXla) {
  std::atomic<int> seen{0};
  std::promise<void> both;
  const LoadedExecutable executable = Compile(testdata::ProductThenCall("f", 128), "f", CountInContext(seen, both));
  TwoRunsSeeTheirOwn(executable, Filled({128, 128}), seen);
}

TEST_F(ContextOfARunTest, ARunWithoutOneHasNullBesideRunsWithOne) {
  std::vector<void*> seen;
  const LoadedExecutable executable = Compile(testdata::Chain({"f", "f"}), "f", [&](const Call& call) {
    seen.push_back(call.context());
    return OkStatus();
  });
  const Buffer x = Filled({4});
  const auto request = std::make_shared<int>(1);
  EXPECT_THAT(executable.Run({&x}), IsOk());
  EXPECT_THAT(executable.Run({&x}, {.context = request}), IsOk());
  EXPECT_THAT(executable.Run({&x}), IsOk());
  EXPECT_THAT(seen, ::testing::ElementsAre(nullptr, nullptr, request.get(), request.get(), nullptr, nullptr));
}

TEST_F(ContextOfARunTest, AContextOutlivesATimeoutAndGoesWithTheRun) {
  std::promise<void> opened, gone;
  const LoadedExecutable executable =
      Compile(testdata::ProductThenCall("f", 128), "f", [met = opened.get_future().share()](const Call& call) {
        if (met.wait_for(kForEver) != std::future_status::ready) return InternalError("nobody opens");
        *static_cast<int*>(call.context()) = 7;
        return OkStatus();
      });
  const Buffer x = Filled({128, 128});
  ExecuteOptions options;
  options.timeout = std::chrono::milliseconds(1);
  options.context = std::shared_ptr<int>(new int(0), [&](int* request) {
    EXPECT_EQ(*request, 7);
    delete request;
    gone.set_value();
  });
  EXPECT_THAT(executable.Run({&x}, options), StatusIs(StatusCode::kDeadlineExceeded, "was not done in time"));
  options.context.reset();
  opened.set_value();
  EXPECT_EQ(gone.get_future().wait_for(kForEver), std::future_status::ready);
}

// The launch fails on one device of two and goes on on the other, whose callback comes while Execute fails, or later.
TEST_F(ContextOfARunTest, StaysWhereTheLaunchOnAnotherDeviceFails) {
  std::promise<void> opened;
  std::promise<int> seen;
  const Compiler compiler(client_);
  CompileOptions options;
  options.num_replicas = 2;
  options.loaded_host_callbacks = {
      compiler
          .MakeLoadedHostCallback(
              FunctionCallback("f",
                               [&seen, met = opened.get_future().share()](const Call& call) -> Status {
                                 if (met.wait_for(kForEver) != std::future_status::ready)
                                   return InternalError("nobody opens");
                                 seen.set_value(call.context() == nullptr ? 0 : *static_cast<int*>(call.context()));
                                 return OkStatus();
                               }))
          .value()};
  const LoadedExecutable executable = compiler.Compile({testdata::ProductThenCall("f", 128)}, options).value();
  const Buffer here = Filled({128, 128});
  const Buffer there = Filled({4}).CopyTo(client_, client_->devices()[1]).value();
  ExecuteOptions run;
  run.check_arguments = false;
  run.context = std::make_shared<int>(7);
  const std::weak_ptr<void> given = run.context;
  const std::vector<std::vector<const Buffer*>> arguments = {{&here}, {&there}};
  EXPECT_THAT(executable.Execute(arguments, run), StatusIs(StatusCode::kInvalidArgument, ""));
  run.context.reset();
  EXPECT_FALSE(given.expired());
  opened.set_value();
  std::future<int> number = seen.get_future();
  ASSERT_EQ(number.wait_for(kForEver), std::future_status::ready);
  EXPECT_EQ(number.get(), 7);
  // A new run on XLA:CPU would wait for the launch that failed, so Execute refuses it.
  const Buffer good = here.CopyTo(client_, client_->devices()[1]).value();
  EXPECT_THAT(executable.Execute(std::vector<std::vector<const Buffer*>>{{&here}, {&good}}),
              StatusIs(StatusCode::kFailedPrecondition, "make a new client"));
}

TEST_F(ContextOfARunTest, WhatSeveralDevicesCannotStartLeavesNothingBehind) {
  const Compiler compiler(client_);
  const LoadedExecutable both = compiler.Compile({kTakesOver}, {.num_replicas = 2}).value();
  const LoadedExecutable takes_over = compiler.Compile({kTakesOver}, {.device_assignment = {1}}).value();
  const Buffer here = Filled({128, 128});
  const Buffer there = here.CopyTo(client_, client_->devices()[1]).value();
  const Buffer gone = here.CopyTo(client_, client_->devices()[1]).value();
  ASSERT_THAT(takes_over.Run({&gone}, {.donated_inputs = {0}}), IsOk());
  const auto other_client = MakeClient();
  const Buffer other = here.CopyTo(other_client, other_client->devices()[1]).value();
  const auto context = std::make_shared<int>(7);
  const auto run = [&](const Buffer& second) {
    return both.Execute(std::vector<std::vector<const Buffer*>>{{&here}, {&second}}, {.context = context});
  };
  for (int i = 0; i < 40; ++i) {  // XLA:CPU admits 32 runs at a time
    ASSERT_THAT(run(gone), StatusIs(StatusCode::kInvalidArgument, "argument 0 on device 1 was deleted or donated"));
    ASSERT_THAT(run(here), StatusIs(StatusCode::kInvalidArgument, "argument 0 on device 1 is on another device"));
    ASSERT_THAT(run(other), StatusIs(StatusCode::kInvalidArgument, "of another client"));
  }
  EXPECT_EQ(context.use_count(), 1);
  Result<Execution> execution = run(there);
  ASSERT_THAT(execution, IsOk());
  EXPECT_THAT(execution->Wait(), IsOk());
}

// Run ids may be equal between runs that overlap, and one of the runs may have no context.
TEST_F(ContextOfARunTest, RunsWithOneNumberSeeTheirOwn) {
  std::promise<void> opened;
  std::mutex mutex;
  std::vector<std::pair<int64_t, void*>> seen;
  const LoadedExecutable executable =
      Compile(testdata::ProductThenCall("f", 128), "f", [&, met = opened.get_future().share()](const Call& call) {
        if (met.wait_for(kForEver) != std::future_status::ready) return InternalError("nobody opens");
        const std::lock_guard lock(mutex);
        seen.emplace_back(call.run_id(), call.context());
        return OkStatus();
      });
  const Buffer x = Filled({128, 128});
  const std::vector<const Buffer*> arguments = {&x};
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  for (const int32_t run_id : {9, -5, INT32_MAX}) {
    std::vector<Execution> started;
    for (const std::shared_ptr<void>& given : std::vector<std::shared_ptr<void>>{one, two, nullptr}) {
      auto execution = executable.Execute({&arguments, 1}, {.run_id = run_id, .context = given});
      ASSERT_THAT(execution, IsOk());
      started.push_back(std::move(execution).value());
    }
    if (run_id == 9) opened.set_value();
    for (Execution& execution : started) EXPECT_THAT(execution.Wait(), IsOk());
    EXPECT_THAT(seen, ::testing::UnorderedElementsAre(std::pair<int64_t, void*>(run_id, one.get()),
                                                      std::pair<int64_t, void*>(run_id, two.get()),
                                                      std::pair<int64_t, void*>(run_id, nullptr)));
    seen.clear();
  }
}

// The program has a gathered call over two devices.
constexpr char kGathers[] =
    "module @m { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n%p = stablehlo.replica_id : "
    "tensor<ui32>\n%y = stablehlo.custom_call @callout.v1.gathered_call(%x, %p) {api_version = 4 : i32, "
    "has_side_effect = true, backend_config = {callback = \"f\", devices = 2 : i64}} : (tensor<4xf32>, tensor<ui32>) "
    "-> tensor<4xf32>\nreturn %y : tensor<4xf32> } }";

TEST_F(ContextOfARunTest, DevicesOfTwoRunsWithOneNumberDoNotMeet) {
  const Compiler compiler(client_);
  CompileOptions options;
  options.num_replicas = 2;
  options.loaded_host_callbacks = {compiler
                                       .MakeLoadedHostCallback(FunctionCallback("f",
                                                                                [](const Call& call) {
                                                                                  EXPECT_EQ(call.run_id(), 9);
                                                                                  for (int64_t i = 0; i < 4; ++i)
                                                                                    call.result<float>(0)[i] =
                                                                                        call.arg<float>(0)[i];
                                                                                  return OkStatus();
                                                                                }))
                                       .value()};
  const LoadedExecutable executable = compiler.Compile({kGathers}, options).value();
  std::vector<std::thread> runs;
  for (const float value : {1.0F, 2.0F}) {
    runs.emplace_back([&, value] {
      std::vector<Buffer> inputs;
      for (size_t i = 0; i < 2; ++i) {
        inputs.push_back(
            Buffer::FromHost(client_, client_->devices()[i], std::vector<int64_t>{4}, std::vector<float>(4, value))
                .value());
      }
      const std::vector<std::vector<const Buffer*>> arguments = {{&inputs[0]}, {&inputs[1]}};
      for (int i = 0; i < 200; ++i) {
        auto execution = executable.Execute(arguments, {.run_id = 9});
        ASSERT_THAT(execution, IsOk());
        ASSERT_THAT(execution->Wait(), IsOk());
        for (const std::vector<Buffer>& outputs : execution->outputs) {
          ASSERT_EQ(outputs[0].ToVector<float>().value()[0], value);
        }
      }
    });
  }
  for (std::thread& run : runs) run.join();
}

TEST_F(ContextOfARunTest, ATapHasNone) {
  std::atomic<void*> seen{this};
  {
    const LoadedExecutable executable = Compile(testdata::TapLoop("t", 1), "t", [&](const Call& call) {
      seen = call.context();
      return OkStatus();
    });
    const Buffer x = Filled({4});
    EXPECT_THAT(executable.Run({&x}, {.context = std::make_shared<int>(1)}), IsOk());
  }
  // Waits for the tap's site as well, which the queue destroys behind the site's records.
  EXPECT_THAT(BarrierWait(), IsOk());
  EXPECT_EQ(seen, nullptr);
}

}  // namespace
}  // namespace callout::pjrt

namespace callout {
namespace {

struct Request {
  int seen = 0;
  int destroyed = 0;
};

int32_t SeeContext(void* /*context*/, const callout_call* call) {
  ++static_cast<Request*>(call->context)->seen;
  return 0;
}

using CApiRunContextTest = CApiRunTest;

TEST_F(CApiRunContextTest, AContextOfARunIsSeenAndDestroyedOnce) {
  const callout_closure closure = {sizeof(closure), &SeeContext, nullptr, nullptr};
  callout_callback* callback = nullptr;
  ASSERT_THAT(Take(callout_callback_from_closure("f", &closure, &callback)), IsOk());
  callout_executable* executable = nullptr;
  ASSERT_THAT(Compile(testdata::Chain({"f"}), {callback}, &executable), IsOk());
  callout_array* x = nullptr;
  callout_array* y = nullptr;
  const float values[4] = {1, 2, 3, 4};
  const int64_t dims[1] = {4};
  ASSERT_THAT(Take(callout_array_from_host(client_, 0, static_cast<uint32_t>(DType::kFloat32), dims, 1, values,
                                           sizeof(values), &x)),
              IsOk());
  Request request;
  callout_execute_options options = {};
  options.struct_size = sizeof(options);
  options.context = &request;
  options.context_destroy = [](void* context) { ++static_cast<Request*>(context)->destroyed; };
  EXPECT_THAT(Take(callout_execute(executable, &x, 1, &options, &y, 1)), IsOk());
  EXPECT_EQ(request.seen, 1);
  EXPECT_EQ(request.destroyed, 1);
  callout_array_destroy(y);
  EXPECT_THAT(Take(callout_execute(executable, nullptr, 1, &options, &y, 1)),
              StatusIs(StatusCode::kInvalidArgument, "argument 0 of device 0 is null"));
  EXPECT_EQ(request.seen, 1);
  EXPECT_EQ(request.destroyed, 2);  // includes the run that was not started
  callout_execution* execution = nullptr;
  for (callout_status* refused :
       {callout_execute(nullptr, &x, 1, &options, &y, 1), callout_execute(executable, &x, 1, &options, &y, 2),
        callout_execute(executable, &x, 1, &options, nullptr, 1),
        callout_execution_start(executable, &x, 1, &options, nullptr),
        callout_execution_start(nullptr, &x, 1, &options, &execution)}) {
    EXPECT_FALSE(Take(refused).ok());
  }
  EXPECT_EQ(request.destroyed, 7);
  callout_array_destroy(x);
  callout_executable_destroy(executable);
  callout_callback_destroy(callback);
}

}  // namespace
}  // namespace callout
