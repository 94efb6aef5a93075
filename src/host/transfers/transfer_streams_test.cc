// SPDX-License-Identifier: Apache-2.0
//
// Tests callbacks with channels on a plugin that has send and receive ops: testdata/transfer_plugin.cc.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "callout/pjrt/executable.h"
#include "callout/pjrt/host_transfer.h"
#include "testing/host_transfer_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class HostTransferStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto plugin = Plugin::Load(CALLOUT_TRANSFER_PLUGIN);
    ASSERT_THAT(plugin, IsOk());
    auto client = Client::Create(plugin.value());
    ASSERT_THAT(client, IsOk());
    client_ = std::move(client).value();
  }
  void TearDown() override {
    client_.reset();
    EXPECT_EQ(Exported<int64_t>("callout_fake_live_objects"), 0);
  }

  template <typename T>
  static T Exported(const char* name) {
    void* library = dlopen(CALLOUT_TRANSFER_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    const auto function = reinterpret_cast<T (*)()>(dlsym(library, name));
    return function();
  }
  // Takes f32[4] on channel 1 and s32[] on 2, returns their sum on 3 and the s32 as f32[1] on 4.
  static Status Add(const Call& call) {
    for (int i = 0; i < 4; ++i) {
      call.result<float>(0)[i] = call.arg<float>(0)[i] + static_cast<float>(call.arg<int32_t>(1)[0]);
    }
    call.result<float>(1)[0] = static_cast<float>(call.arg<int32_t>(1)[0]);
    return OkStatus();
  }
  LoadedHostCallback Make(std::function<Status(const Call&)> function) const {
    const HostTransfers transfers = {{{1, DType::kFloat32, {4}}, {2, DType::kInt32}},
                                     {{3, DType::kFloat32, {4}}, {4, DType::kFloat32, {1}}}};
    auto callback = Compiler(client_).MakeLoadedHostCallback(HostTransferCallback("f", transfers, std::move(function)));
    EXPECT_THAT(callback, IsOk());
    return std::move(callback).value();
  }
  Result<LoadedExecutable> Compile(const std::string& code, const LoadedHostCallback& callback) const {
    return Compiler(client_).Compile({code}, {.loaded_host_callbacks = {callback}});
  }
  template <typename T>
  Buffer Array(const std::vector<int64_t>& dims, std::vector<T> values, size_t device = 0) const {
    auto buffer = Buffer::FromHost(client_, client_->devices()[device], dims, values);
    EXPECT_THAT(buffer, IsOk());
    return std::move(buffer).value();
  }
  Result<std::vector<Buffer>> Run(const std::string& code, const LoadedHostCallback& callback) const {
    CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable executable, Compile(code, callback));
    const Buffer x = Array<float>({4}, {1, 2, 3, 4});
    const Buffer n = Array<int32_t>({}, {10});
    return executable.Run({&x, &n}, {.run_id = 7});
  }
  void ExpectSums(const std::string& code) const {
    auto outputs = Run(code, Make(&Add));
    ASSERT_THAT(outputs, IsOk());
    EXPECT_THAT(outputs.value()[0].ToVector<float>().value(), ElementsAre(11, 12, 13, 14));
    EXPECT_THAT(outputs.value()[1].ToVector<float>().value(), ElementsAre(10));
  }

  std::shared_ptr<const Client> client_;
};

TEST_F(HostTransferStreamsTest, OperandsGoOutAndResultsComeBack) {
  ExpectSums("outputs 2\nsend 1 0 16\nsend 2 1 4\nrecv 3 0 16\nrecv 4 1 4\n");
}

TEST_F(HostTransferStreamsTest, OperandsMayComeInPieces) {
  ExpectSums("outputs 2\nsend 1 0 3\nsend 2 1 1\nrecv 3 0 16\nrecv 4 1 4\n");
}

TEST_F(HostTransferStreamsTest, ResultsMayBeAskedForBeforeOperandsCome) {
  ExpectSums("outputs 2\nask 4 1 4\nask 3 0 16\nsend 2 1 4\nsend 1 0 16\nwait\n");
}

TEST_F(HostTransferStreamsTest, EachRoundIsACall) {
  int calls = 0;
  auto outputs =
      Run("outputs 2\nsend 1 0 16\nsend 2 1 4\nrecv 3 0 16\nrecv 4 1 4\n"
          "send 1 0 16\nsend 2 1 4\nsend 1 0 5\nsend 2 1 4\nrecv 3 0 16\nrecv 3 1 16\n",
          Make([&](const Call& call) {
            EXPECT_EQ(call.run_id(), 7);
            call.result<float>(0)[0] = static_cast<float>(++calls);
            return OkStatus();
          }));
  ASSERT_THAT(outputs, IsOk());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(outputs.value()[0].ToVector<float>().value()[0], 2);
  EXPECT_EQ(outputs.value()[1].ToVector<float>().value()[0], 3);
}

TEST_F(HostTransferStreamsTest, ReplicasAreKeptApart) {
  auto executable = Compile("devices 2\noutputs 1\nsend 1 0 16\nsend 2 1 4\nrecv 3 0 16\n", Make([](const Call& call) {
                              call.result<float>(0)[0] =
                                  100 * static_cast<float>(call.device_ordinal()) + call.arg<float>(0)[0];
                              return OkStatus();
                            }));
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({4}, {1, 0, 0, 0});
  const Buffer y = Array<float>({4}, {2, 0, 0, 0}, 1);
  const Buffer n = Array<int32_t>({}, {10});
  const std::vector<std::vector<const Buffer*>> arguments = {{&x, &n}, {&y, &n}};
  auto execution = executable->Execute(arguments);
  ASSERT_THAT(execution, IsOk());
  ASSERT_THAT(execution->Wait(), IsOk());
  EXPECT_EQ(execution->outputs[0][0].ToVector<float>().value()[0], 1);
  EXPECT_EQ(execution->outputs[1][0].ToVector<float>().value()[0], 102);
}

TEST_F(HostTransferStreamsTest, AFailureIsTheExecutionsWithCodeAndText) {
  const auto outputs = Run("outputs 1\nsend 1 0 16\nsend 2 1 4\nrecv 3 0 16\n",
                           Make([](const Call&) { return Status(StatusCode::kDataLoss, "the disk is gone"); }));
  EXPECT_THAT(outputs.status(), StatusIs(StatusCode::kDataLoss, "callback 'f' failed on device 0: the disk is gone"));
}

TEST_F(HostTransferStreamsTest, WhatIsThrownIsAFailure) {
  const auto outputs = Run("outputs 1\nsend 1 0 16\nsend 2 1 4\n",
                           Make([](const Call&) -> Status { throw std::runtime_error("thrown"); }));
  EXPECT_THAT(outputs.status(), StatusIs(StatusCode::kInternal, "thrown"));
}

TEST_F(HostTransferStreamsTest, StreamsThatAFailureLeavesWaitingAreGivenUp) {
  const auto outputs = Run("outputs 1\nask 3 0 16\nsend 1 0 16\nsend 2 1 4\nwait\n",
                           Make([](const Call&) { return Status(StatusCode::kAborted, "no"); }));
  EXPECT_THAT(outputs.status(), StatusIs(StatusCode::kAborted, "no"));
}

TEST_F(HostTransferStreamsTest, AResultThatThereIsNoMemoryForIsAFailureAndStreamsAreGivenUp) {
  const HostTransfers transfers = {{{1, DType::kFloat32, {4}}}, {{3, DType::kFloat32, {int64_t{1} << 56}}}};
  const auto callback = Compiler(client_).MakeLoadedHostCallback(
      HostTransferCallback("f", transfers, [](const Call&) { return OkStatus(); }));
  ASSERT_THAT(callback, IsOk());
  const auto outputs = Run("outputs 1\nask 3 0 16\nsend 1 0 16\nwait\n", callback.value());
  EXPECT_THAT(outputs.status(), StatusIs(StatusCode::kResourceExhausted, "out of memory"));
}

TEST_F(HostTransferStreamsTest, StreamsThatNothingComesForAreGivenUp) {
  EXPECT_THAT(Run("outputs 1\nask 3 0 16\nsend 1 0 16\n", Make(&Add)), IsOk());
}

TEST_F(HostTransferStreamsTest, AnOperandOfAnotherSizeIsRefused) {
  EXPECT_THAT(Run("outputs 1\nsend 2 0 16\n", Make(&Add)).status(),
              StatusIs(StatusCode::kInvalidArgument, "the operand on channel 2: expected 4 bytes, got 16"));
}

TEST_F(HostTransferStreamsTest, AResultOfAnotherSizeIsRefused) {
  EXPECT_THAT(Run("outputs 1\nsend 1 0 16\nsend 2 1 4\nrecv 3 0 12\n", Make(&Add)).status(),
              StatusIs(StatusCode::kInternal, "given up"));
  EXPECT_THAT(Run("outputs 1\nsend 1 0 16\nsend 2 1 4\nask 3 0 12\nsend 1 0 16\n", Make(&Add)).status(),
              StatusIs(StatusCode::kInvalidArgument, "the result on channel 3: expected 12 bytes, got 16"));
}

TEST_F(HostTransferStreamsTest, WhatComesWhenTheExecutionIsOverIsRefused) {
  ASSERT_THAT(Run("outputs 0\nlate 2\n", Make(&Add)), IsOk());
  client_.reset();  // waits for the threads that report the end of the run
  EXPECT_EQ(Exported<int>("callout_fake_send_late"), static_cast<int>(StatusCode::kCancelled));
}

TEST_F(HostTransferStreamsTest, TextProgramsAreCheckedAndLeftAsTheyAre) {
  // The fake plugin's programs have no such lines, and it ignores them.
  EXPECT_THAT(
      Compiler(client_).Compile({kPretty}),
      StatusIs(StatusCode::kInvalidArgument, "no callback for the program's stablehlo.send on channel 1 (line 4)"));
}

}  // namespace
}  // namespace callout::pjrt
