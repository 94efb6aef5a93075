// SPDX-License-Identifier: Apache-2.0
//
// Tests programs for several shapes on the CPU plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "callout/pjrt/executable.h"
#include "testing/cpu_client_fixture.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;

// Returns a program that sums b numbers and calls "f" with the sum.
Program SumOf(int b) {
  const std::string type = "tensor<" + std::to_string(b) + "xf32>";
  Program program{"module @sum {\nfunc.func public @main(%x: " + type +
                  ") -> tensor<f32> {\n%zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
                  "%s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (" +
                  type +
                  ", tensor<f32>) -> tensor<f32>\n%y = stablehlo.custom_call @callout.v1.call(%s) {api_version = 4 : "
                  "i32, has_side_effect = true, backend_config = {callback = \"f\"}} : (tensor<f32>) -> "
                  "tensor<f32>\nreturn %y : tensor<f32>\n}\n}\n"};
  program.shapes = "b=" + std::to_string(b);
  return program;
}

class ShapesTest : public internal::OneCpuClientTest {
 protected:
  Result<LoadedExecutable> Compile(CompileOptions options = {}) {
    Program program = SumOf(3);
    program.others = {SumOf(17), SumOf(5)};
    options.loaded_host_callbacks = {Compiler(client_)
                                         .MakeLoadedHostCallback(FunctionCallback("f",
                                                                                  [](const Call& call) {
                                                                                    call.result<float>(0)[0] =
                                                                                        10 * call.arg<float>(0)[0];
                                                                                    return OkStatus();
                                                                                  }))
                                         .value()};
    return Compiler(client_).Compile(program, options);
  }
  Buffer Ones(int b) {
    const std::vector<int64_t> dims = {b};
    return Buffer::FromHost(client_, client_->devices()[0], dims, std::vector<float>(static_cast<size_t>(b), 1))
        .value();
  }
};

TEST_F(ShapesTest, ArgumentsChooseTheProgram) {
  const auto executable = Compile();
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(executable->callback_names(), ::testing::ElementsAre("f"));
  for (const int b : {17, 3, 5, 3}) {
    const Buffer x = Ones(b);
    const auto outputs = executable->Run({&x});
    ASSERT_THAT(outputs, IsOk());
    EXPECT_THAT(outputs->at(0).ToVector<float>().value(), ::testing::ElementsAre(10.0F * static_cast<float>(b)));
    const std::vector<const Buffer*> arguments = {&x};
    auto execution = executable->Execute({&arguments, 1});
    ASSERT_THAT(execution, IsOk());
    EXPECT_THAT(execution->Wait(), IsOk());
  }
}

TEST_F(ShapesTest, AnotherShapeIsAnErrorThatNamesThoseThatThereAre) {
  const auto executable = Compile();
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Ones(4);
  EXPECT_THAT(executable->Run({&x}),
              StatusIs(StatusCode::kInvalidArgument,
                       "the program 'sum' was not exported for (f32[4]): b=3 takes (f32[3]); b=17 takes (f32[17]); b=5 "
                       "takes (f32[5])"));
  EXPECT_THAT(executable->Run({nullptr}), StatusIs(StatusCode::kInvalidArgument, "is null, or was moved away"));
  EXPECT_THAT(executable->Serialize(), StatusIs(StatusCode::kUnimplemented, "has several shapes"));
}

TEST_F(ShapesTest, TheCacheHasEachOfThem) {
  std::string folder = ::testing::TempDir() + "/callout_shapes_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const bool is_cached : {false, true}) {
    const auto executable = Compile({.cache_directory = folder + "/cache"});
    ASSERT_THAT(executable, IsOk());
    EXPECT_EQ(executable->is_from_cache(), is_cached);
    std::string shapes;
    for (const LoadedExecutable* each : executable->for_shapes()) shapes += each->shapes() + " ";
    EXPECT_EQ(shapes, "b=3 b=17 b=5 ");
    const Buffer x = Ones(17);
    EXPECT_THAT(executable->Run({&x}), IsOk());
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace callout::pjrt
