// SPDX-License-Identifier: Apache-2.0
//
// Tests what the CPU plugin reports about programs, and which arguments it takes.
#include "callout/pjrt/executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "core/frame/call_frame.h"
#include "core/frame/ffi_abi.h"
#include "testing/cpu_client_fixture.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::IsOkAndHolds;
using internal::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

// The result takes over the first argument's memory.
constexpr char kDonates[] =
    "module @adds { func.func public @main(%a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xi4>)\n"
    "    -> (tensor<2x3xf32>, tensor<4xi4>) {\n"
    "%0 = stablehlo.add %a, %a : tensor<2x3xf32>\nreturn %0, %b : tensor<2x3xf32>, tensor<4xi4> } }";

class ExecutableTest : public internal::OneCpuClientTest {
 protected:
  Result<LoadedExecutable> Compile(const Program& program, const CompileOptions& options = {}) {
    return Compiler(client_).Compile(program, options);
  }
  Buffer FromHost(DType dtype, const std::vector<int64_t>& dims, const void* data) {
    auto buffer = Buffer::FromHost(client_, client_->devices()[0], dtype, dims, data);
    EXPECT_THAT(buffer, IsOk());
    return std::move(buffer).value();
  }
};

TEST_F(ExecutableTest, TellsItsSignature) {
  const auto executable = Compile({kDonates});
  ASSERT_THAT(executable, IsOk());
  EXPECT_EQ(executable->name(), "adds");
  const auto signature = executable->ReadSignature();
  ASSERT_THAT(signature, IsOk());
  EXPECT_THAT(signature->inputs, ElementsAre(Field(&ProgramArray::type, ArrayType{DType::kFloat32, {2, 3}}),
                                             Field(&ProgramArray::type, ArrayType{DType::kInt4, {4}})));
  EXPECT_EQ(signature->outputs.size(), 2U);
  EXPECT_THAT(signature->donatable, ElementsAre(0));
}

TEST_F(ExecutableTest, TellsItsCosts) {
  const auto executable = Compile({kDonates});
  ASSERT_THAT(executable, IsOk());
  const auto costs = executable->ReadCosts();
  ASSERT_THAT(costs, IsOk());
  EXPECT_THAT(*costs, Contains(Key("flops")));
  const auto memory = executable->ReadMemoryStats();
  ASSERT_THAT(memory, IsOk());
  EXPECT_GE(memory->arguments, 24);
  EXPECT_GE(memory->outputs, 24);
}

TEST_F(ExecutableTest, DonationIsTheCallersChoice) {
  const auto executable = Compile({kDonates});
  ASSERT_THAT(executable, IsOk());
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<int8_t> b = {1, -2, 3, -4};
  const Buffer first = FromHost(DType::kFloat32, {2, 3}, a.data()), second = FromHost(DType::kInt4, {4}, b.data());
  ASSERT_THAT(executable->Run({&first, &second}), IsOk());
  EXPECT_THAT(first.IsDeleted(), IsOkAndHolds(false));
  EXPECT_THAT(first.ToVector<float>(), IsOkAndHolds(a));
  const auto outputs = executable->Run({&first, &second}, {.donated_inputs = {0}});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(first.IsDeleted(), IsOkAndHolds(true));
  EXPECT_THAT((*outputs)[0].ToVector<float>(), IsOkAndHolds(ElementsAre(2, 4, 6, 8, 10, 12)));
  const auto small = (*outputs)[1].ToHost();
  ASSERT_THAT(small, IsOk());
  EXPECT_THAT(*small, ElementsAre(std::byte{1}, std::byte{14}, std::byte{3}, std::byte{12}));
}

TEST_F(ExecutableTest, OnlyWhatTheProgramCanTakeOverIsDonated) {
  const auto executable = Compile({kDonates});
  ASSERT_THAT(executable, IsOk());
  const std::vector<int32_t> words(6);
  const Buffer first = FromHost(DType::kFloat32, {2, 3}, words.data()),
               second = FromHost(DType::kInt4, {4}, words.data());
  const auto run = [&](std::vector<int64_t> donated) {
    return executable->Run({&first, &second}, {.donated_inputs = std::move(donated)});
  };
  EXPECT_THAT(run({0, 1}), StatusIs(StatusCode::kInvalidArgument,
                                    "donated_inputs has 1, which the program cannot take over: it was made to take 0"));
  EXPECT_THAT(run({2}), StatusIs(StatusCode::kInvalidArgument, "donated_inputs has 2, and the program takes 2 inputs"));
  EXPECT_THAT(run({-1}), StatusIs(StatusCode::kInvalidArgument, "donated_inputs has -1"));
  EXPECT_THAT(first.IsDeleted(), IsOkAndHolds(false));
}

// A handler that doubles f32 numbers, as XLA_FFI_DEFINE_HANDLER would make it.
XLA_FFI_Error* Doubles(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = nullptr;
  if (internal::AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  callout_buffer from, to;
  std::span<const callout_buffer> args, results;
  const bool is_decoded =
      internal::DecodeArgs(frame->args, &from, args).ok() && internal::DecodeRets(frame->rets, &to, results).ok();
  if (!is_decoded || args.size() != 1 || results.size() != 1) {
    return internal::ToFfiError(frame->api, InvalidArgument("expected one operand and one result"));
  }
  for (size_t i = 0; i < from.size_bytes / sizeof(float); ++i) {
    static_cast<float*>(to.data)[i] = 2 * static_cast<const float*>(from.data)[i];
  }
  return nullptr;
}

XLA_FFI_Error* RefusesToBegin(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = nullptr;
  if (internal::AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return internal::ToFfiError(frame->api, FailedPrecondition("not with this program"));
}

std::string CallsTarget(const std::string& target) {
  return "func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
         "%0 = stablehlo.custom_call @" +
         target + "(%a) {api_version = 4 : i32} : (tensor<3xf32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32> }";
}

TEST_F(ExecutableTest, ProgramsCallTheHandlersOfTheirHost) {
  EXPECT_THAT(Compile({CallsTarget("executable_test.doubles")}), Not(IsOk()));
  ASSERT_THAT(client_->plugin().RegisterHandler({.name = "executable_test.doubles", .execute = &Doubles}), IsOk());
  const auto executable = Compile({CallsTarget("executable_test.doubles")});
  ASSERT_THAT(executable, IsOk());
  const std::vector<float> numbers = {1, 2, 3};
  const Buffer given = FromHost(DType::kFloat32, {3}, numbers.data());
  const auto outputs = executable->Run({&given});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT((*outputs)[0].ToVector<float>(), IsOkAndHolds(ElementsAre(2, 4, 6)));
  EXPECT_THAT(client_->plugin().RegisterHandler({.name = "executable_test.doubles", .execute = &RefusesToBegin}),
              Not(IsOk()));
}

TEST_F(ExecutableTest, StagesOfHandlersAreCalled) {
  ASSERT_THAT(client_->plugin().RegisterHandler(
                  {.name = "executable_test.refuses", .execute = &Doubles, .instantiate = &RefusesToBegin}),
              IsOk());
  EXPECT_THAT(Compile({CallsTarget("executable_test.refuses")}),
              StatusIs(StatusCode::kFailedPrecondition, "not with this program"));
}

TEST_F(ExecutableTest, ArgumentsMustBeOfTheProgramsTypes) {
  const auto executable = Compile({kDonates});
  ASSERT_THAT(executable, IsOk());
  const std::vector<int32_t> words(6);
  const Buffer floats = FromHost(DType::kFloat32, {2, 3}, words.data()),
               small = FromHost(DType::kInt4, {4}, words.data());
  const Buffer integers = FromHost(DType::kInt32, {2, 3}, words.data());
  const Buffer turned = FromHost(DType::kFloat32, {3, 2}, words.data());
  EXPECT_THAT(executable->Run({&floats, &small}), IsOk());
  EXPECT_THAT(executable->Run({&integers, &small}),
              StatusIs(StatusCode::kInvalidArgument, "argument 0 on device 0: expected f32[2,3], got s32[2,3]"));
  EXPECT_THAT(executable->Run({&turned, &small}), StatusIs(StatusCode::kInvalidArgument, "got f32[3,2]"));
  EXPECT_THAT(executable->Run({&floats}), StatusIs(StatusCode::kInvalidArgument, "takes 2 arguments, device 0 got 1"));
  EXPECT_THAT(executable->Run({&floats, nullptr}), StatusIs(StatusCode::kInvalidArgument, "is null"));
  EXPECT_THAT(executable->Run({&integers, &small}, {.check_arguments = false}), IsOk());
  const auto outputs = executable->Run({&floats, &small});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_EQ((*outputs)[0].type_tag(), floats.type_tag());
  EXPECT_NE((*outputs)[1].type_tag(), floats.type_tag());
  EXPECT_THAT(executable->Run({&(*outputs)[0], &(*outputs)[1]}), IsOk());
  EXPECT_THAT(executable->Run({&(*outputs)[1], &(*outputs)[0]}), StatusIs(StatusCode::kInvalidArgument, "got s4[4]"));
}

TEST_F(ExecutableTest, ABufferCanBeViewedInPlace) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Buffer buffer = FromHost(DType::kFloat32, {2, 3}, values.data());
  {
    const auto view = buffer.View<float>();
    ASSERT_THAT(view, IsOk());
    EXPECT_THAT(view->values(), ::testing::ElementsAreArray(values));
    const auto again = buffer.View<float>();
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->values().data(), view->values().data());
  }
  EXPECT_THAT(buffer.View<int32_t>(),
              StatusIs(StatusCode::kInvalidArgument, "expected an array of s32, got one of f32"));
}

TEST_F(ExecutableTest, ProgramsOfOtherPlatformsAreRefused) {
  const std::string code = kDonates;
  EXPECT_THAT(
      Compile({.code = code, .name = "f", .platforms = {"cuda"}}),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("'f' was exported for 'cuda'"), HasSubstr("'cpu'"))));
  EXPECT_THAT(Compile({.code = code, .platforms = {"cpu", "cuda"}}),
              StatusIs(StatusCode::kInvalidArgument, "platforms=['cpu']"));
  EXPECT_THAT(
      Compile({.code = code, .num_tokens = 2}),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("2 ordered effects"), HasSubstr("callout.export"))));
  EXPECT_THAT(Compile({.code = code, .has_dimension_arguments = true}),
              StatusIs(StatusCode::kInvalidArgument, "symbolic dimensions"));
  EXPECT_THAT(Compile({.code = code, .num_devices = 2}, {.num_partitions = 4}),
              StatusIs(StatusCode::kInvalidArgument, "exported for 2 devices, got 4 partitions"));
  EXPECT_THAT(Compile({.code = code, .platforms = {"cpu"}, .num_devices = 1}), IsOk());
}

TEST_F(ExecutableTest, ANewerArtifactSaysHowToTargetThePlugin) {
  const std::string artifact("ML\xefR\x0dStableHLO_v1.99.0\0 of the future", 38);
  const auto executable = Compile({artifact});
  EXPECT_THAT(executable, StatusIs(StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("is StableHLO 1.99.0"), HasSubstr("stablehlo_version=\"1."),
                                         HasSubstr("The plugin says: "))));
}

TEST_F(ExecutableTest, CallbacksCanBeAskedForByTheirPlaces) {
  const auto sets = [](float value) {
    return Compiler(nullptr).MakeLoadedHostCallback(
        FunctionCallback("f" + std::to_string(value), [=](const Call& call) {
          call.result<float>(0)[0] = value;
          return OkStatus();
        }));
  };
  const auto one = sets(1), two = sets(2);
  ASSERT_TRUE(one.ok() && two.ok());
  const auto executable = Compile(
      {"module @m { func.func public @main() -> tensor<f32> {\n"
       "%0 = stablehlo.custom_call @callout.v1.call() {api_version = 4 : i32, backend_config = {callback = \"#1\"}} : "
       "() -> tensor<f32>\nreturn %0 : tensor<f32> } }"},
      {.loaded_host_callbacks = {*one, *two}});
  ASSERT_THAT(executable, IsOk());
  const auto outputs = executable->Run({});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT((*outputs)[0].ToVector<float>(), IsOkAndHolds(ElementsAre(2)));
}

// The program calls "f" with an f32[4] and an s32[], which returns two arrays, and taps the first as "t" twice.
constexpr char kCallsOut[] =
    "module @m { func.func public @main(%x: tensor<4xf32>, %k: tensor<i32>) -> tensor<2xi32> {\n"
    "%z:2 = stablehlo.custom_call @callout.v1.call(%x, %k) {api_version = 4 : i32, has_side_effect = true, "
    "backend_config = {callback = \"f\"}} : (tensor<4xf32>, tensor<i32>) -> (tensor<4xf32>, tensor<2xi32>)\n"
    "stablehlo.custom_call @callout.v1.tap(%z#0) {has_side_effect = true, mhlo.backend_config = {callback = \"t\"}} : "
    "(tensor<4xf32>) -> ()\nreturn %z#1 : tensor<2xi32> } }";

TEST_F(ExecutableTest, TellsWhereItCallsOut) {
  const auto executable = Compile({kCallsOut}, {.allow_unbound_names = true});
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(executable->callback_names(), ElementsAre("f", "t"));
  const auto uses = executable->ReadCallbackUses();
  ASSERT_THAT(uses, IsOk());
  ASSERT_EQ(uses->size(), 2U);
  const ArrayType floats{DType::kFloat32, {4}};
  EXPECT_EQ((*uses)[0].name, "f");
  EXPECT_THAT((*uses)[0].operands, ElementsAre(floats, ArrayType{DType::kInt32, {}}));
  EXPECT_THAT((*uses)[0].results, ElementsAre(floats, ArrayType{DType::kInt32, {2}}));
  EXPECT_EQ((*uses)[1].target, "callout.v1.tap");
  EXPECT_THAT((*uses)[1].operands, ElementsAre(floats));
}

TEST_F(ExecutableTest, AnUnboundNameThatIsAllowedFailsWhereItIsCalled) {
  EXPECT_THAT(Compile({kCallsOut}), StatusIs(StatusCode::kNotFound, "the name 'f'"));
  const auto executable = Compile({kCallsOut}, {.allow_unbound_names = true});
  ASSERT_THAT(executable, IsOk());
  const std::vector<float> x = {1, 2, 3, 4};
  const int32_t k = 1;
  const Buffer first = FromHost(DType::kFloat32, {4}, x.data()), second = FromHost(DType::kInt32, {}, &k);
  EXPECT_THAT(executable->Run({&first, &second}), StatusIs(StatusCode::kNotFound, "the name 'f'"));
}

TEST_F(ExecutableTest, DimsThatNoArrayHasAreRefused) {
  const std::vector<std::vector<int64_t>> all = {{-1}, {2, -3}, {int64_t{1} << 62, 4}, {int64_t{1} << 62, 4, 0}};
  for (const std::vector<int64_t>& dims : all) {
    const float value = 0;
    EXPECT_THAT(Buffer::FromHost(client_, client_->devices()[0], DType::kFloat32, dims, &value).status(),
                StatusIs(StatusCode::kInvalidArgument, "an array cannot be f32["));
    EXPECT_THAT(Buffer::FromHost(client_, client_->devices()[0], dims, std::vector<float>{}).status(),
                StatusIs(StatusCode::kInvalidArgument, "callout: an array"));
  }
  const float value = 0;
  EXPECT_THAT(Buffer::FromHost(client_, client_->devices()[0], DType::kToken, {}, &value).status(),
              StatusIs(StatusCode::kInvalidArgument, "a token cannot be made of memory"));
}

TEST_F(ExecutableTest, ATokenHasNothingToCopy) {
  const auto executable = Compile({R"(func.func public @main() -> (!stablehlo.token, tensor<f32>) {
    %t = stablehlo.create_token : !stablehlo.token
    %c = stablehlo.constant dense<1.0> : tensor<f32>
    return %t, %c : !stablehlo.token, tensor<f32>
  })"});
  ASSERT_THAT(executable, IsOk());
  const auto outputs = executable->Run({});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT((*outputs)[0].ToHost(), StatusIs(StatusCode::kInvalidArgument, "a token has no elements"));
  EXPECT_THAT((*outputs)[1].ToVector<float>(), IsOk());
}

TEST_F(ExecutableTest, ExtentsThatAreBoundsAreRefused) {
  const auto executable = Compile({R"(func.func public @main(%x: tensor<?xf32, #stablehlo.bounds<4>>)
      -> tensor<?xf32, #stablehlo.bounds<4>> { return %x : tensor<?xf32, #stablehlo.bounds<4>> })"});
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(executable->ReadSignature(), StatusIs(StatusCode::kUnimplemented, "bounds in place of extents"));
}

TEST_F(ExecutableTest, ResultsOfAnotherLayoutComeRowMajor) {
  const auto executable = Compile({R"(func.func public @main() -> (tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {
    %c = stablehlo.constant dense<[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]> : tensor<2x3xf32>
    return %c : tensor<2x3xf32>
  })"});
  ASSERT_THAT(executable, IsOk());
  const auto outputs = executable->Run({});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT((*outputs)[0].ToVector<float>(), IsOkAndHolds(std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_THAT((*outputs)[0].View<float>().status(), StatusIs(StatusCode::kFailedPrecondition, "not row-major"));
}

TEST_F(ExecutableTest, ArgumentsOfAnotherLayoutAreRefused) {
  const auto executable = Compile({R"(
    func.func public @main(%x: tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) -> tensor<2x3xf32> {
      return %x : tensor<2x3xf32>
    })"});
  EXPECT_THAT(executable,
              StatusIs(StatusCode::kUnimplemented, "argument 0 of the program, f32[2,3], is in another layout"));
}

TEST_F(ExecutableTest, FloatsOfFourBitsAreCopied) {
  const std::vector<uint8_t> bits = {0, 1, 7, 8, 15};
  const Buffer buffer = FromHost(DType::kFloat4E2M1Fn, {5}, bits.data());
  const auto bytes = buffer.ToHost();
  ASSERT_THAT(bytes, IsOk());
  ASSERT_EQ(bytes->size(), bits.size());
  for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(static_cast<uint8_t>((*bytes)[i]), bits[i]);
}

TEST_F(ExecutableTest, ACallThatIsBoundToASinkIsRefusedWhereTheProgramIsLoaded) {
  const auto sink = [](const char* name) { return SinkCallback(name, SinkCallback::Kind::kNull).Make().value(); };
  const auto refused =
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("'f' is bound to a sink"), HasSubstr("the program calls it: expected a function")));
  EXPECT_THAT(Compile({kCallsOut}, {.loaded_host_callbacks = {sink("f"), sink("t")}}), refused);
  const auto function = FunctionCallback("f", [](const Call&) { return OkStatus(); }).Make();
  const auto executable = Compile({kCallsOut}, {.loaded_host_callbacks = {*function, sink("t")}});
  ASSERT_THAT(executable, IsOk());
  const auto bytes = executable->Serialize();
  ASSERT_THAT(bytes, IsOk());
  EXPECT_THAT(Compiler(client_).Load(*bytes, {.loaded_host_callbacks = {sink("f"), sink("t")}}), refused);
}

TEST_F(ExecutableTest, ATimeThatNoClockCountsToIsForever) {
  const float value = 1;
  const Buffer buffer = FromHost(DType::kFloat32, {}, &value);
  auto ready = buffer.Ready();
  ASSERT_THAT(ready, IsOk());
  EXPECT_THAT(ready->WaitFor(std::chrono::nanoseconds::max()), IsOk());
  for (const double seconds : {1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THAT(BarrierWait(seconds), IsOk());
  }
}

TEST_F(ExecutableTest, ACallOverPartitionsThatXlaCannotPlaceIsExplained) {
  constexpr char kProgram[] = R"(func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    stablehlo.custom_call @callout.v1.tap(%x) {api_version = 4 : i32, has_side_effect = true,
        backend_config = {callback = "loss"}} : (tensor<4xf32>) -> ()
    return %x : tensor<4xf32>
  })";
  EXPECT_THAT(Compile({kProgram}, {.allow_unbound_names = true, .num_partitions = 2}),
              StatusIs(StatusCode::kInternal, "inside of shard_map. The plugin says: "));
}

TEST_F(ExecutableTest, TheMachineIsKnown) {
  const auto topology = client_->ReadTopology();
  ASSERT_THAT(topology, IsOk());
  EXPECT_EQ(topology->platform, "cpu");
  EXPECT_EQ(topology->devices.size(), 2U);
  EXPECT_FALSE(client_->devices()[0].memories.empty());
}

}  // namespace
}  // namespace callout::pjrt
