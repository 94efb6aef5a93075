// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/host_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "callout/pjrt/executable.h"
#include "testing/cpu_client_fixture.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

// Kinds of handles, as programs write them.
constexpr char kFlag[] = "0", kValue[] = "1";

class HostObjectTest : public OneCpuClientTest {
 protected:
  // Returns a program that reads an object of this kind as one array of this type.
  static std::string Reading(const std::string& kind, const std::string& type) {
    return "module @m {\nfunc.func public @main(%handle: tensor<4xui32>) -> " + type +
           " {\n%read = stablehlo.custom_call @callout.v1.read(%handle) {api_version = 4 : i32, has_side_effect = "
           "true, backend_config = {kind = " +
           kind + " : i64}} : (tensor<4xui32>) -> " + type + "\nreturn %read : " + type + "\n}\n}\n";
  }

  pjrt::LoadedExecutable Compiled(const std::string& kind, const std::string& type) {
    return pjrt::Compiler(client_).Compile({Reading(kind, type)}).value();
  }

  pjrt::Buffer Argument(const pjrt::HostObject& object) {
    return object.HandleOn(client_, client_->devices().front()).value();
  }

  template <typename T>
  static Result<std::vector<T>> Run(const pjrt::LoadedExecutable& program, const pjrt::Buffer& handle) {
    CALLOUT_ASSIGN_OR_RETURN(const auto results, program.Run({&handle}));
    return results[0].template ToVector<T>();
  }
};

TEST_F(HostObjectTest, AProgramAsksAFlagInEachRun) {
  auto flag = pjrt::StopFlag::Make().value();
  const auto program = Compiled(kFlag, "tensor<i1>");
  const pjrt::Buffer handle = Argument(flag);
  EXPECT_THAT(Run<bool>(program, handle).value(), ElementsAre(false));
  flag.Set();
  EXPECT_TRUE(flag.IsSet());
  EXPECT_THAT(Run<bool>(program, handle).value(), ElementsAre(true));
  flag.Clear();
  EXPECT_THAT(Run<bool>(program, handle).value(), ElementsAre(false));
}

TEST_F(HostObjectTest, AProgramReadsWhatAValueIsNow) {
  auto rate = pjrt::HostValue::Make(0.5F).value();
  const auto program = Compiled(kValue, "tensor<f32>");
  const pjrt::Buffer handle = Argument(rate);
  EXPECT_THAT(Run<float>(program, handle).value(), ElementsAre(0.5F));
  EXPECT_THAT(rate.Set(0.25F), IsOk());
  EXPECT_THAT(Run<float>(program, handle).value(), ElementsAre(0.25F));
}

TEST_F(HostObjectTest, OneProgramServesAllObjectsOfAKind) {
  const auto one = pjrt::HostValue::Make(1.F).value(), two = pjrt::HostValue::Make(2.F).value();
  const auto program = Compiled(kValue, "tensor<f32>");
  EXPECT_THAT(Run<float>(program, Argument(one)).value(), ElementsAre(1));
  EXPECT_THAT(Run<float>(program, Argument(two)).value(), ElementsAre(2));
}

TEST_F(HostObjectTest, AValueKeepsItsType) {
  std::array<float, 3> numbers = {1, 2, 3};
  const int64_t dims[] = {3};
  const callout_buffer array = {.dtype = static_cast<uint32_t>(DType::kFloat32),
                                .rank = 1,
                                .data = numbers.data(),
                                .dims = dims,
                                .size_bytes = sizeof(numbers)};
  auto value = pjrt::HostValue::Make(std::span(&array, 1)).value();
  EXPECT_THAT(value.Set(1.F), StatusIs(StatusCode::kInvalidArgument, "f32[3]"));
  EXPECT_THAT(Run<float>(Compiled(kValue, "tensor<3xf32>"), Argument(value)).value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Run<float>(Compiled(kValue, "tensor<f32>"), Argument(value)).status(),
              StatusIs(StatusCode::kInvalidArgument, "f32[3]"));
}

TEST_F(HostObjectTest, AnObjectThatIsGoneIsAnError) {
  const auto program = Compiled(kFlag, "tensor<i1>");
  auto flag = std::make_unique<pjrt::StopFlag>(pjrt::StopFlag::Make().value());
  pjrt::StopFlag moved = std::move(*flag);
  flag.reset();
  const pjrt::Buffer handle = Argument(moved);
  EXPECT_THAT(Run<bool>(program, handle), IsOk());
  moved = pjrt::StopFlag::Make().value();
  EXPECT_THAT(Run<bool>(program, handle).status(),
              StatusIs(StatusCode::kFailedPrecondition, "StopFlag: the object of this handle is gone"));
}

TEST_F(HostObjectTest, AProgramTapsTheSinkOfItsArgument) {
  const std::string text =
      "module @m {\nfunc.func public @main(%handle: tensor<4xui32>, %x: tensor<f32>) -> tensor<f32> {\n"
      "stablehlo.custom_call @callout.v1.tap(%handle, %x) {api_version = 4 : i32, has_side_effect = true, "
      "backend_config = {callback = \"sink:log\", leaves = \"\\0A\"}} : (tensor<4xui32>, tensor<f32>) -> ()\n"
      "return %x : tensor<f32>\n}\n}\n";
  const auto program = pjrt::Compiler(client_).Compile({text}).value();
  const std::string path = ::testing::TempDir() + "/host_object_test." + std::to_string(getpid()) + ".jsonl";
  const auto log = pjrt::SinkCallback("log", pjrt::SinkCallback::Kind::kJsonLines, path).Make().value();
  const auto sink = pjrt::SinkArgument::Make(log).value();
  const float one = 1;
  const auto x = pjrt::Buffer::FromHost(client_, client_->devices().front(), DType::kFloat32, {}, &one).value();
  const pjrt::Buffer handle = Argument(sink);
  EXPECT_THAT(program.Run({&handle, &x}), IsOk());
  EXPECT_THAT(pjrt::BarrierWait(), IsOk());
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_THAT(line, ::testing::HasSubstr("\"value\": 1"));
  EXPECT_FALSE(std::getline(file, line));
  std::filesystem::remove(path);
}

TEST_F(HostObjectTest, AFunctionIsNoSink) {
  const auto function = pjrt::FunctionCallback("f", [](const Call&) { return OkStatus(); }).Make().value();
  EXPECT_THAT(pjrt::SinkArgument::Make(function).status(),
              StatusIs(StatusCode::kInvalidArgument, "expected a sink, got the function 'f'"));
}

TEST_F(HostObjectTest, AProgramThatReadsHasNoCallbacks) {
  EXPECT_THAT(Compiled(kFlag, "tensor<i1>").ReadCallbackUses().value(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace callout::internal
