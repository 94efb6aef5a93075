// SPDX-License-Identifier: Apache-2.0
//
// Tests the errors that a caller gets when a callback fails, throws or blocks, from programs that XLA runs on the
// caller's thread and on its own threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "callout/pjrt/executable.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::IsOkAndHolds;
using internal::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// XLA:CPU runs a program without matrix products on the calling thread, and others on a thread of its own.
enum class Weight { kLight, kHeavy };

std::string CodeOf(Weight weight) {
  std::string code = "module @m { func.func public @main(%x: tensor<128x128xf32>) -> (tensor<f32>) {\n";
  code += weight == Weight::kHeavy
              ? "%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<128x128xf32>, "
                "tensor<128x128xf32>) -> tensor<128x128xf32>\n"
              : "%y = stablehlo.add %x, %x : tensor<128x128xf32>\n";
  return code +
         "%s = stablehlo.slice %y [0:1, 0:1] : (tensor<128x128xf32>) -> tensor<1x1xf32>\n"
         "%t = stablehlo.reshape %s : (tensor<1x1xf32>) -> tensor<f32>\n"
         "%z = stablehlo.custom_call @callout.v1.call(%t) {api_version = 4 : i32, has_side_effect = true, "
         "backend_config = {callback = \"f\"}} : (tensor<f32>) -> tensor<f32>\nreturn %z : tensor<f32> } }";
}

class HostErrorsTest : public internal::WithLiveCounts<::testing::TestWithParam<Weight>> {
 protected:
  void SetUp() override {
    WithLiveCounts::SetUp();
    auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN);
    ASSERT_THAT(plugin, IsOk());
    auto client = Client::Create(*plugin, {.values = {{"cpu_device_count", int64_t{1}}}});
    ASSERT_THAT(client, IsOk());
    client_ = *client;
    const std::vector<int64_t> dims = {128, 128};
    auto argument = Buffer::FromHost(client_, client_->devices()[0], dims, std::vector<float>(128 * 128, 1));
    ASSERT_THAT(argument, IsOk());
    argument_.emplace_back(std::move(argument).value());
  }
  void TearDown() override {
    argument_.clear();
    client_ = nullptr;
    WithLiveCounts::TearDown();
  }

  LoadedExecutable Compile(std::function<Status(const Call&)> function) {
    const Compiler compiler(client_);
    auto callback = compiler.MakeLoadedHostCallback(FunctionCallback("f", std::move(function)));
    EXPECT_THAT(callback, IsOk());
    auto executable = compiler.Compile({CodeOf(GetParam())}, {.loaded_host_callbacks = {*callback}});
    EXPECT_THAT(executable, IsOk());
    return std::move(executable).value();
  }
  Result<std::vector<Buffer>> Run(const LoadedExecutable& executable) { return executable.Run({&argument_[0]}); }
  float Expected() const { return GetParam() == Weight::kHeavy ? 128 : 2; }

  std::shared_ptr<const Client> client_;
  std::vector<Buffer> argument_;
};

INSTANTIATE_TEST_SUITE_P(Programs, HostErrorsTest, ::testing::Values(Weight::kLight, Weight::kHeavy),
                         [](const auto& test) { return test.param == Weight::kLight ? "light" : "heavy"; });

TEST_P(HostErrorsTest, TheCodeAndTheTextArriveWhereverXlaPutsThem) {
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kNotFound, StatusCode::kInternal,
                                StatusCode::kDataLoss, StatusCode::kUnknown}) {
    const LoadedExecutable executable = Compile([code](const Call&) { return Status(code, "it is gone"); });
    EXPECT_THAT(Run(executable), StatusIs(code, AllOf(HasSubstr("callback 'f'"), HasSubstr("it is gone"))));
  }
}

TEST_P(HostErrorsTest, AnythingThrownIsAnError) {
  EXPECT_THAT(Run(Compile([](const Call&) -> Status { throw std::runtime_error("thrown"); })),
              StatusIs(StatusCode::kInternal, AllOf(HasSubstr("callback 'f'"), HasSubstr("thrown"))));
  EXPECT_THAT(Run(Compile([](const Call&) -> Status { throw 42; })), StatusIs(StatusCode::kInternal, "callback 'f'"));
}

TEST_P(HostErrorsTest, TheClientGoesOnAfterAnError) {
  bool fails = true;
  const LoadedExecutable executable = Compile([&](const Call& call) {
    if (fails) return InternalError("once");
    call.result<float>(0)[0] = call.arg<float>(0)[0];
    return OkStatus();
  });
  EXPECT_THAT(Run(executable), StatusIs(StatusCode::kInternal, "once"));
  fails = false;
  const auto outputs = Run(executable);
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT((*outputs)[0].ToVector<float>(), IsOkAndHolds(std::vector<float>{Expected()}));
}

TEST_P(HostErrorsTest, AWaitCanEndBeforeABlockedCallback) {
  std::mutex mutex;
  std::condition_variable changed;
  bool may_go_on = false;
  const LoadedExecutable executable = Compile([&](const Call& call) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return may_go_on; });
    call.result<float>(0)[0] = call.arg<float>(0)[0];
    return OkStatus();
  });
  const auto let_go = [&] {
    const std::lock_guard lock(mutex);
    may_go_on = true;
    changed.notify_all();
  };
  // A light program blocks Execute itself, so there is no event to wait for before the program is over.
  std::thread helper;
  if (GetParam() == Weight::kLight) helper = std::thread(let_go);
  const std::vector<const Buffer*> arguments = {&argument_[0]};
  auto execution = executable.Execute({&arguments, 1});
  ASSERT_THAT(execution, IsOk());
  if (GetParam() == Weight::kHeavy) {
    EXPECT_THAT(execution->done[0].WaitFor(std::chrono::milliseconds(1)), StatusIs(StatusCode::kDeadlineExceeded, ""));
    let_go();
  }
  EXPECT_THAT(execution->Wait(), IsOk());
  EXPECT_THAT(execution->outputs[0][0].ToVector<float>(), IsOkAndHolds(std::vector<float>{Expected()}));
  if (helper.joinable()) helper.join();
}

TEST_P(HostErrorsTest, AnExecutableMayGoWhileItRuns) {
  std::mutex mutex;
  std::condition_variable changed;
  bool may_go_on = GetParam() == Weight::kLight;
  std::vector<Execution> running;
  {
    const LoadedExecutable executable = Compile([&](const Call& call) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return may_go_on; });
      call.result<float>(0)[0] = 7;
      return OkStatus();
    });
    const std::vector<const Buffer*> arguments = {&argument_[0]};
    auto execution = executable.Execute({&arguments, 1});
    ASSERT_THAT(execution, IsOk());
    running.push_back(std::move(execution).value());
  }
  {
    const std::lock_guard lock(mutex);
    may_go_on = true;
    changed.notify_all();
  }
  EXPECT_THAT(running[0].Wait(), IsOk());
  EXPECT_THAT(running[0].outputs[0][0].ToVector<float>(), IsOkAndHolds(std::vector<float>{7}));
}

TEST_P(HostErrorsTest, WhatDependsOnAFailureFailsToo) {
  const LoadedExecutable fails = Compile([](const Call&) { return InternalError("the first"); });
  const std::vector<const Buffer*> arguments = {&argument_[0]};
  auto execution = fails.Execute({&arguments, 1});
  if (!execution.ok()) return;  // Execute itself returns a light program's error, so nothing can depend on the results
  const Compiler compiler(client_);
  const auto doubles =
      compiler.Compile({"module @m { func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
                        "%y = stablehlo.add %x, %x : tensor<f32>\nreturn %y : tensor<f32> } }"});
  ASSERT_THAT(doubles, IsOk());
  EXPECT_THAT(doubles->Run({&execution->outputs[0][0]}), StatusIs(StatusCode::kInternal, "the first"));
  EXPECT_THAT(execution->Wait(), StatusIs(StatusCode::kInternal, "the first"));
}

}  // namespace
}  // namespace callout::pjrt
