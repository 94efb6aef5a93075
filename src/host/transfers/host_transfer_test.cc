// SPDX-License-Identifier: Apache-2.0
//
// Tests programs that send to the host and receive from it, on the real CPU plugin, which has no such ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "callout/pjrt/executable.h"
#include "callout/pjrt/host_transfer.h"
#include "testing/host_transfer_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HostTransferPluginTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN);
    ASSERT_THAT(plugin, IsOk());
    auto client = Client::Create(plugin.value(), {.values = {{"cpu_device_count", int64_t{2}}}});
    ASSERT_THAT(client, IsOk());
    client_ = new std::shared_ptr<const Client>(std::move(client).value());
  }
  static void TearDownTestSuite() {
    delete client_;
    client_ = nullptr;
  }

  static LoadedHostCallback Make(const HostTransferCallback& args) {
    auto callback = compiler().MakeLoadedHostCallback(args);
    EXPECT_THAT(callback, IsOk());
    return std::move(callback).value();
  }
  // Returns a callback x, n -> x + n, (first and last of x), which declares its channels in another order than the
  // ascending one.
  static LoadedHostCallback Adds(std::string name = "adds") {
    const HostTransfers transfers = {{{2, DType::kInt32}, {1, DType::kFloat32, {4}}},
                                     {{3, DType::kFloat32, {4}}, {4, DType::kFloat32, {2}}}};
    return Make({std::move(name), transfers, [](const Call& call) {
                   const auto n = static_cast<float>(call.arg<int32_t>(0)[0]);
                   const auto x = call.arg<float>(1);
                   for (int64_t i = 0; i < 4; ++i) call.result<float>(0)[i] = x[i] + n;
                   call.result<float>(1)[0] = x[0];
                   call.result<float>(1)[1] = x[3];
                   return OkStatus();
                 }});
  }
  static Compiler compiler() { return Compiler(*client_); }
  template <typename T>
  static Buffer Array(const std::vector<int64_t>& dims, std::vector<T> values, size_t device = 0) {
    auto buffer = Buffer::FromHost(*client_, (*client_)->devices()[device], dims, values);
    EXPECT_THAT(buffer, IsOk());
    return std::move(buffer).value();
  }
  static void ExpectAdds(const std::string& program) {
    auto executable = compiler().Compile({program}, {.loaded_host_callbacks = {Adds()}});
    ASSERT_THAT(executable, IsOk());
    const Buffer x = Array<float>({4}, {1, 2, 3, 4});
    const Buffer n = Array<int32_t>({}, {10});
    auto outputs = executable->Run({&x, &n});
    ASSERT_THAT(outputs, IsOk());
    EXPECT_THAT(outputs.value()[0].ToVector<float>().value(), ElementsAre(11, 12, 13, 14));
    EXPECT_THAT(outputs.value()[1].ToVector<float>().value(), ElementsAre(1, 4));
    EXPECT_THAT(executable->callback_names(), ElementsAre("channels:1,2->3,4"));
  }

  static std::shared_ptr<const Client>* client_;
};

std::shared_ptr<const Client>* HostTransferPluginTest::client_ = nullptr;

TEST_F(HostTransferPluginTest, TheUsualFormRuns) { ExpectAdds(kPretty); }
TEST_F(HostTransferPluginTest, TheGenericFormRuns) { ExpectAdds(kGeneric); }
TEST_F(HostTransferPluginTest, WhatIsWrittenByHandRuns) { ExpectAdds(kByHand); }

class HostTransferLoopTest : public HostTransferPluginTest, public ::testing::WithParamInterface<bool> {};

TEST_P(HostTransferLoopTest, CallsKeepTheirOrder) {
  std::mutex mutex;
  std::vector<float> calls;
  const auto note = [&](float value) {
    const std::lock_guard lock(mutex);
    calls.push_back(value);
  };
  const HostTransfers step = {{{1, DType::kFloat32}, {2, DType::kInt32}}, {{3, DType::kFloat32}}};
  const LoadedHostCallback steps = Make({"steps", step, [&](const Call& call) {
                                           note(call.arg<float>(0)[0]);
                                           call.result<float>(0)[0] =
                                               call.arg<float>(0)[0] + static_cast<float>(call.arg<int32_t>(1)[0]);
                                           return OkStatus();
                                         }});
  const LoadedHostCallback last = Make({"last", {{{4, DType::kFloat32}}, {}}, [&](const Call& call) {
                                          note(-call.arg<float>(0)[0]);
                                          return OkStatus();
                                        }});
  auto executable = compiler().Compile({TransferLoop(5, GetParam())}, {.loaded_host_callbacks = {steps, last}});
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({}, {100});
  auto outputs = executable->Run({&x});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(outputs.value()[0].ToVector<float>().value(), ElementsAre(110));
  EXPECT_THAT(calls, ElementsAre(100, 100, 101, 103, 106, -110));
}

INSTANTIATE_TEST_SUITE_P(Inline, HostTransferLoopTest, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(InAFunction, HostTransferLoopTest, ::testing::Values(true));

// Returns a program of f32[4096] that sends its argument on `count` channels, one after the other. XLA could run all of
// these calls at once.
std::string Sends(int count) {
  std::string code =
      "module @m {\nfunc.func public @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {\n"
      "%0 = stablehlo.after_all : !stablehlo.token\n";
  for (int i = 1; i <= count; ++i) {
    code += "%" + std::to_string(i) + " = \"stablehlo.send\"(%x, %" + std::to_string(i - 1) +
            ") <{channel_handle = #stablehlo.channel_handle<handle = " + std::to_string(i) +
            ", type = 2>, is_host_transfer = true}> : (tensor<4096xf32>, !stablehlo.token) -> !stablehlo.token\n";
  }
  return code + "return %x : tensor<4096xf32>\n}\n}\n";
}

TEST_F(HostTransferPluginTest, ChainedCallsKeepTheirOrderWhereXlaIsParallel) {
  std::mutex mutex;
  std::vector<int64_t> order;
  std::vector<LoadedHostCallback> callbacks;
  std::vector<int64_t> expected;
  for (int64_t channel = 1; channel <= 24; ++channel) {
    expected.push_back(channel);
    callbacks.push_back(Make({"", {{{channel, DType::kFloat32, {4096}}}, {}}, [&, channel](const Call&) {
                                const std::lock_guard lock(mutex);
                                order.push_back(channel);
                                return OkStatus();
                              }}));
  }
  auto executable = compiler().Compile({Sends(24)}, {.loaded_host_callbacks = callbacks});
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({4096}, std::vector<float>(4096));
  for (int run = 0; run < 30; ++run) {
    order.clear();
    ASSERT_THAT(executable->Run({&x}), IsOk());
    ASSERT_EQ(order, expected);
  }
}

TEST_F(HostTransferPluginTest, AFailureIsTheCallersWithCodeAndText) {
  const HostTransfers transfers = {{{1, DType::kFloat32, {4096}}}, {}};
  auto executable = compiler().Compile(
      {Sends(1)}, {.loaded_host_callbacks = {Make({"f", transfers, [](const Call&) {
                                                     return Status(StatusCode::kDataLoss, "the disk is gone");
                                                   }})}});
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({4096}, std::vector<float>(4096));
  EXPECT_THAT(executable->Run({&x}).status(),
              StatusIs(StatusCode::kDataLoss, "callback 'f' failed on device 0: the disk is gone"));
}

TEST_F(HostTransferPluginTest, ReplicasCallWithTheirOrdinal) {
  const HostTransfers transfers = {{{1, DType::kFloat32, {4096}}}, {}};
  std::mutex mutex;
  std::vector<std::pair<int, float>> calls;
  auto executable = compiler().Compile(
      {Sends(1)}, {.loaded_host_callbacks = {Make({"f", transfers,
                                                   [&](const Call& call) {
                                                     const std::lock_guard lock(mutex);
                                                     calls.emplace_back(call.device_ordinal(), call.arg<float>(0)[0]);
                                                     return OkStatus();
                                                   }})},
                   .num_replicas = 2});
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({4096}, std::vector<float>(4096, 5));
  const Buffer y = Array<float>({4096}, std::vector<float>(4096, 6), 1);
  const std::vector<std::vector<const Buffer*>> arguments = {{&x}, {&y}};
  auto execution = executable->Execute(arguments);
  ASSERT_THAT(execution, IsOk());
  ASSERT_THAT(execution->Wait(), IsOk());
  EXPECT_THAT(calls, ::testing::UnorderedElementsAre(std::pair(0, 5.0F), std::pair(1, 6.0F)));
}

// A shard_map over two devices, as JAX writes it: the ops inside belong to each device and have shardings of their own.
constexpr char kPartitioned[] = R"(module @m {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg1: tensor<2xf32>) {
      %1 = stablehlo.after_all : !stablehlo.token
      %2 = "stablehlo.send"(%arg1, %1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> {mhlo.sharding = "{manual}"} : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
      %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> {mhlo.sharding = "{manual}"} : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
      sdy.return %3#0 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)";

TEST_F(HostTransferPluginTest, PartitionsCallWithTheirShards) {
  const HostTransfers transfers = {{{1, DType::kFloat32, {2}}}, {{2, DType::kFloat32, {2}}}};
  const LoadedHostCallback callback =
      Make({"f", transfers, [&](const Call& call) {
              for (int i = 0; i < 2; ++i) {
                call.result<float>(0)[i] = 10 * call.arg<float>(0)[i] + static_cast<float>(call.device_ordinal());
              }
              return OkStatus();
            }});
  auto executable = compiler().Compile({kPartitioned}, {.loaded_host_callbacks = {callback}, .num_partitions = 2});
  ASSERT_THAT(executable, IsOk());
  const Buffer x0 = Array<float>({2}, {1, 2});
  const Buffer x1 = Array<float>({2}, {3, 4}, 1);
  const std::vector<std::vector<const Buffer*>> arguments = {{&x0}, {&x1}};
  auto execution = executable->Execute(arguments);
  ASSERT_THAT(execution, IsOk());
  ASSERT_THAT(execution->Wait(), IsOk());
  EXPECT_THAT(execution->outputs[0][0].ToVector<float>().value(), ElementsAre(10, 20));
  EXPECT_THAT(execution->outputs[1][0].ToVector<float>().value(), ElementsAre(31, 41));
}

// Returns a program that Python has rewritten.
Program Rewritten(const std::string& name, const std::string& type) {
  return {"module @m {\nfunc.func public @main(%x: " + type + ") -> " + type +
          " {\n%0 = stablehlo.after_all : !stablehlo.token\n%1:2 = stablehlo.custom_call @callout.v1.call(%x, %0) "
          "{api_version = 4 : i32, has_side_effect = true, backend_config = {callback = \"" +
          name + "\"}} : (" + type + ", !stablehlo.token) -> (" + type + ", !stablehlo.token)\nreturn %1#0 : " + type +
          "\n}\n}\n"};
}

TEST_F(HostTransferPluginTest, AProgramThatWasRewrittenElsewhereFindsItsCallback) {
  const HostTransfers transfers = {{{7, DType::kFloat32, {2}}}, {{9, DType::kFloat32, {2}}}};
  const LoadedHostCallback twice = Make({"twice", transfers, [](const Call& call) {
                                           for (int i = 0; i < 2; ++i) {
                                             call.result<float>(0)[i] = 2 * call.arg<float>(0)[i];
                                           }
                                           return OkStatus();
                                         }});
  const Buffer x = Array<float>({2}, {1, 2});
  for (const std::string name : {"channels:7->9", "twice"}) {
    auto executable = compiler().Compile(Rewritten(name, "tensor<2xf32>"), {.loaded_host_callbacks = {twice}});
    ASSERT_THAT(executable, IsOk());
    auto outputs = executable->Run({&x});
    ASSERT_THAT(outputs, IsOk());
    EXPECT_THAT(outputs.value()[0].ToVector<float>().value(), ElementsAre(2, 4));
  }
  auto executable = compiler().Compile(Rewritten("channels:7->9", "tensor<3xf32>"), {.loaded_host_callbacks = {twice}});
  ASSERT_THAT(executable, IsOk());
  const Buffer y = Array<float>({3}, {1, 2, 3});
  EXPECT_THAT(executable->Run({&y}).status(),
              StatusIs(StatusCode::kInvalidArgument, "operand on channel 7: expected f32[2], got f32[3]"));
}

// callout.export has written testdata/exchange_loop.mlirbc from `loop` of tests/python/host/test_host_transfers.py.
TEST_F(HostTransferPluginTest, AProgramThatWasExportedFromPythonFindsItsCallback) {
  auto program = Program::FromFile(CALLOUT_TESTDATA "/exchange_loop.mlirbc");
  ASSERT_THAT(program, IsOk());
  std::vector<float> seen;
  const HostTransfers transfers = {{{1, DType::kFloat32}}, {{2, DType::kFloat32}}};
  auto executable = compiler().Compile(
      *program, {.loaded_host_callbacks = {Make({"", transfers, [&](const Call& call) {
                                                   seen.push_back(call.arg<float>(0)[0]);
                                                   call.result<float>(0)[0] = 2 * call.arg<float>(0)[0];
                                                   return OkStatus();
                                                 }})}});
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({}, {1});
  auto outputs = executable->Run({&x});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(outputs.value()[0].ToVector<float>().value(), ElementsAre(58));
  EXPECT_THAT(seen, ElementsAre(1, 2, 5, 12, 27));
}

TEST_F(HostTransferPluginTest, MismatchesFailTheCompilation) {
  EXPECT_THAT(compiler().Compile({kPretty}), StatusIs(StatusCode::kInvalidArgument, "channels of the callbacks: none"));
  EXPECT_THAT(compiler().Compile({kPretty}, {.loaded_host_callbacks = {Adds("a"), Adds("b")}}),
              StatusIs(StatusCode::kInvalidArgument, "the callbacks 'a' and 'b' both have channel 1"));
}

// The host does not rewrite binary programs.
TEST_F(HostTransferPluginTest, ABinaryProgramIsToldWhereToRewriteIt) {
  // The file is a program that sends f32[] on channel 1.
  auto program = Program::FromFile(CALLOUT_TESTDATA "/send.mlirbc");
  ASSERT_THAT(program, IsOk());
  EXPECT_THAT(compiler().Compile(*program),
              StatusIs(StatusCode::kUnimplemented,
                       AllOf(HasSubstr("callout.export"), HasSubstr("callout.host.rewrite_host_transfers"),
                             HasSubstr("HLO opcode `send` is not supported"))));
}

}  // namespace
}  // namespace callout::pjrt
