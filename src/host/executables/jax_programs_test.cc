// SPDX-License-Identifier: Apache-2.0
//
// Tests programs with JAX's own callbacks, as JAX lowers them. The text is that of JAX 0.12, without locations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "callout/pjrt/executable.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::ElementsAre;

// The program has a pure_callback, a debug.callback and a buffer_callback.
constexpr char kCallbacks[] = R"(
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]>
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {
    %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0) {backend_config = "",
      mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<0> : tensor<1xindex>],
      result_layouts = [dense<0> : tensor<1xindex>],
      sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.custom_call @xla_ffi_partitioned_python_cpu_callback(%0, %arg0) {backend_config = "", has_side_effect = true,
      mhlo.backend_config = {index = 1 : ui64},
      operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>],
      result_layouts = []} : (tensor<3xf32>, tensor<3xf32>) -> ()
    %1 = stablehlo.custom_call @xla_buffer_python_cpu_callback(%0) {backend_config = "",
      mhlo.backend_config = {index = 12 : ui64}, operand_layouts = [dense<0> : tensor<1xindex>],
      result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
})";

// The program has an ordered io_callback.
constexpr char kOrdered[] = R"(
func.func public @main(%arg0: !stablehlo.token {jax.token = true}, %arg1: tensor<f32>)
    -> (!stablehlo.token {jax.token = true}, tensor<f32>) {
  %0:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0, %arg1) {backend_config = "", has_side_effect = true,
    mhlo.backend_config = {index = 0 : ui64},
    operand_layouts = [dense<> : tensor<0xindex>, dense<> : tensor<0xindex>],
    result_layouts = [dense<> : tensor<0xindex>, dense<> : tensor<0xindex>]}
    : (!stablehlo.token, tensor<f32>) -> (!stablehlo.token, tensor<f32>)
  return %0#0, %0#1 : !stablehlo.token, tensor<f32>
})";

Status Double(const Call& call) {
  const auto x = call.arg<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) call.result<float>(0)[i] = 2 * x[i];
  return OkStatus();
}

class JaxProgramsTest : public internal::LiveCountTest {
 protected:
  void SetUp() override {
    internal::LiveCountTest::SetUp();
    auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN);
    ASSERT_THAT(plugin, IsOk());
    auto client = Client::Create(*plugin);
    ASSERT_THAT(client, IsOk());
    client_ = *client;
  }
  void TearDown() override {
    client_ = nullptr;
    EXPECT_THAT(BarrierWait(), IsOk());  // the queue destroys sites of destroyed programs behind their records
    internal::LiveCountTest::TearDown();
  }
  Result<LoadedExecutable> Compile(const char* code, const CompileOptions& options) {
    CALLOUT_ASSIGN_OR_RETURN(const Program program, Program::FromBytes(code));
    return Compiler(client_).Compile(program, options);
  }
  static LoadedHostCallback Bound(const LoadedHostCallbackMakeArgs& args) {
    auto made = args.Make();
    EXPECT_THAT(made, IsOk());
    return std::move(made).value();
  }
  Result<std::vector<float>> Run(const LoadedExecutable& executable, const std::vector<float>& x) {
    const std::vector<int64_t> dims = {static_cast<int64_t>(x.size())};
    CALLOUT_ASSIGN_OR_RETURN(const Buffer buffer, Buffer::FromHost(client_, client_->devices()[0], dims, x));
    CALLOUT_ASSIGN_OR_RETURN(const auto outputs, executable.Run({&buffer}));
    return outputs[0].ToVector<float>();
  }

  std::shared_ptr<const Client> client_;
};

TEST_F(JaxProgramsTest, CallsWhatIsBoundToTheirIndices) {
  std::atomic<int> seen = 0;
  const auto see = [&seen](const Call& call) {
    seen += static_cast<int>(call.arg<float>(0)[2] + call.arg<float>(1)[2]);
    return OkStatus();
  };
  CompileOptions options;
  options.loaded_host_callbacks = {Bound(FunctionCallback("jax:0", &Double)), Bound(FunctionCallback("jax:1", see)),
                                   Bound(FunctionCallback("jax:12", &Double))};
  const auto executable = Compile(kCallbacks, options);
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(Run(*executable, {1, 2, 3}), internal::IsOkAndHolds(ElementsAre(4, 8, 12)));
  EXPECT_EQ(seen, 9);
  const auto uses = executable->ReadCallbackUses();
  ASSERT_THAT(uses, IsOk());
  std::vector<std::string> listed;
  for (const CallbackUse& use : *uses) {
    listed.push_back(use.name + " " + std::to_string(use.operands.size()) + " " + std::to_string(use.results.size()));
  }
  EXPECT_THAT(listed, ::testing::UnorderedElementsAre("jax:0 1 1", "jax:1 2 0", "jax:12 1 1"));
  EXPECT_THAT(executable->ReadCustomCalls(), internal::IsOkAndHolds(::testing::IsEmpty()));
}

TEST_F(JaxProgramsTest, SayAllThatIsMissing) {
  CompileOptions options;
  options.loaded_host_callbacks = {Bound(FunctionCallback("jax:1", &Double))};
  EXPECT_THAT(Compile(kCallbacks, options),
              StatusIs(StatusCode::kNotFound, "no callback is bound to 'jax:0', 'jax:12': they stand for"));
  options.allow_unbound_names = true;
  EXPECT_THAT(Compile(kCallbacks, options), IsOk());
}

TEST_F(JaxProgramsTest, ASinkTakesCallsWithoutResultsAsTaps) {
  const std::string path = ::testing::TempDir() + "/jax.jsonl";
  CompileOptions options;
  options.loaded_host_callbacks = {Bound(FunctionCallback("jax:0", &Double)),
                                   Bound(SinkCallback("jax:1", SinkCallback::Kind::kJsonLines, path)),
                                   Bound(FunctionCallback("jax:12", &Double))};
  {
    const auto executable = Compile(kCallbacks, options);
    ASSERT_THAT(executable, IsOk());
    for (int i = 0; i < 3; ++i) EXPECT_THAT(Run(*executable, {1, 2, 3}), IsOk());
    EXPECT_THAT(BarrierWait(), IsOk());
  }
  EXPECT_GT(std::filesystem::file_size(path), 100U);
  options.loaded_host_callbacks[2] = Bound(SinkCallback("jax:12", SinkCallback::Kind::kNull));
  EXPECT_THAT(Compile(kCallbacks, options),
              StatusIs(StatusCode::kFailedPrecondition, "'jax:12' is bound to a sink, which takes taps"));
  EXPECT_THAT(BarrierWait(), IsOk());
}

TEST_F(JaxProgramsTest, ATokenIsAnArrayWithoutElements) {
  CompileOptions options;
  options.loaded_host_callbacks = {Bound(FunctionCallback("jax:0", &Double))};
  const auto executable = Compile(kOrdered, options);
  ASSERT_THAT(executable, IsOk());
  const float x = 3;
  const auto token = Buffer::FromHost(client_, client_->devices()[0], DType::kBool, {{0}}, &x);
  const auto argument = Buffer::FromHost(client_, client_->devices()[0], DType::kFloat32, {}, &x);
  ASSERT_THAT(token, IsOk());
  ASSERT_THAT(argument, IsOk());
  const auto outputs = executable->Run({&*token, &*argument});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT((*outputs)[1].ToVector<float>(), internal::IsOkAndHolds(ElementsAre(6)));
}

}  // namespace
}  // namespace callout::pjrt
