// SPDX-License-Identifier: Apache-2.0
//
// Tests programs in MLIR text, as JAX and MLIR print them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "callout/pjrt/contents.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A program as jax.jit(f).lower(...).as_text() prints it.
constexpr char kPrinted[] = R"(
#loc = loc(unknown)
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3xcomplex<f32>> {jax.buffer_donor = true} loc("x"), %arg1: tensor<?xi8>, %arg2: !stablehlo.token) -> (tensor<3x3xcomplex<f32>> {jax.result_info = "result[0] -> (\22"}, tensor<f32>) {
    %0 = stablehlo.custom_call @callout.v1.call(%arg0) {backend_config = "", mhlo.backend_config = {callback = "sca\22le", sharding = "gather"}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
    stablehlo.custom_call @callout.v1.tap(%0) {has_side_effect = true, backend_config = {callback = "t"}} : (tensor<3x3xcomplex<f32>>) -> ()
    %1 = call @inv(%0) : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
    %2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%0, %arg2) {mhlo.backend_config = {index = 7 : ui64}, sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (tensor<3x3xcomplex<f32>>, !stablehlo.token) -> tensor<3x3xcomplex<f32>> loc(#loc)
    return %1, %2 : tensor<3x3xcomplex<f32>>, tensor<f32>
  }
  func.func private @inv(%arg0: tensor<3x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>> {
    // %9 = stablehlo.custom_call @in_a_comment(%arg0) : (tensor<f32>) -> ()
    %0:3 = stablehlo.custom_call @lapack_cgetrf_ffi(%arg0) {mhlo.backend_config = {}, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([k, l], [m], []) {i=3, j=3}, custom>} : (tensor<3x3xcomplex<f32>>) -> (tensor<3x3xcomplex<f32>>, tensor<3xi32>, tensor<i32>)
    return %0#0 : tensor<3x3xcomplex<f32>>
  }
}
)";

// A program in MLIR's generic form.
constexpr char kGeneric[] = R"mlir(
"builtin.module"() <{sym_name = "jit_f"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x?xf32>) -> (tensor<2x?xf32>, tensor<i1>), res_attrs = [{}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg21: tensor<2x?xf32>):
    %9 = "stablehlo.constant"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>
    %91 = "stablehlo.custom_call"(%arg21, %9) <{api_version = 1 : i32, backend_config = "", call_target_name = "callout.v1.call", called_computations = []}> {indices_of_shape_operands = dense<1> : tensor<1xi64>, mhlo.backend_config = {callback = "f", library = "lib"}} : (tensor<2x?xf32>, tensor<2xi32>) -> tensor<2x?xf32>
    "stablehlo.custom_call"(%9) <{call_target_name = "shape_assertion", has_side_effect = true}> : (tensor<2xi32>) -> ()
    "func.return"(%91) : (tensor<2x?xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "other"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
)mlir";

Result<ProgramContents> ReadText(std::string text) { return ReadContents({std::move(text)}); }

std::vector<std::string> TypesOf(const std::vector<ArrayType>& types) {
  std::vector<std::string> texts;
  for (const ArrayType& type : types) texts.push_back(type.ToString());
  return texts;
}

TEST(TextContentsTest, TellsArgumentsResultsAndCallsOfWhatJaxPrints) {
  const auto contents = ReadText(kPrinted);
  ASSERT_THAT(contents, IsOk());
  EXPECT_THAT(TypesOf(contents->inputs), ElementsAre("c64[3,3]", "s8[?]", "token[]"));
  EXPECT_THAT(TypesOf(contents->outputs), ElementsAre("c64[3,3]", "f32[]"));
  ASSERT_EQ(contents->callbacks.size(), 3U);
  EXPECT_EQ(contents->callbacks[0].name, "sca\"le");
  EXPECT_EQ(contents->callbacks[0].target, "callout.v1.call");
  EXPECT_THAT(TypesOf(contents->callbacks[0].operands), ElementsAre("c64[3,3]"));
  EXPECT_EQ(contents->callbacks[1].name, "t");
  EXPECT_THAT(contents->callbacks[1].results, IsEmpty());
  EXPECT_EQ(contents->callbacks[2].name, "jax:7");
  EXPECT_THAT(TypesOf(contents->callbacks[2].operands), ElementsAre("c64[3,3]")) << "without the token";
  ASSERT_EQ(contents->custom_calls.size(), 1U);
  EXPECT_EQ(contents->custom_calls[0].target, "lapack_cgetrf_ffi");
  EXPECT_THAT(TypesOf(contents->custom_calls[0].results), ElementsAre("c64[3,3]", "s32[3]", "s32[]"));
}

TEST(TextContentsTest, TellsThemOfTheGenericForm) {
  const auto contents = ReadText(kGeneric);
  ASSERT_THAT(contents, IsOk());
  EXPECT_THAT(TypesOf(contents->inputs), ElementsAre("f32[2,?]"));
  EXPECT_THAT(TypesOf(contents->outputs), ElementsAre("f32[2,?]", "bool[]"));
  ASSERT_EQ(contents->callbacks.size(), 1U);
  EXPECT_EQ(contents->callbacks[0].name, "f");
  EXPECT_TRUE(contents->callbacks[0].is_embedded);
  EXPECT_THAT(TypesOf(contents->callbacks[0].operands), ElementsAre("f32[2,?]"));
  EXPECT_THAT(contents->custom_calls, IsEmpty());
}

TEST(TextContentsTest, WhatItCannotReadIsSaidWithItsLine) {
  EXPECT_THAT(ReadText("func.func @f() {\n}"), StatusIs(StatusCode::kUnimplemented, HasSubstr("no function 'main'")));
  EXPECT_THAT(ReadText("func.func @main(%x: index) {}"), StatusIs(StatusCode::kUnimplemented, HasSubstr("no arrays")));
  EXPECT_THAT(ReadText("func.func @main(%x: tensor<3xf32, #stablehlo.bounds<4>>) {}"),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("no arrays")));
  EXPECT_THAT(ReadText("func.func @main() {\n  stablehlo.custom_call @f(%0) {} (tensor<f32>)\n}"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected the type of a call in line 2")));
  EXPECT_THAT(ReadText("func.func @main() {\n"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("line 1")));
}

TEST(TextContentsTest, TextThatIsCutOffIsNoCrash) {
  for (const std::string whole : {kPrinted, kGeneric}) {
    for (size_t size = 0; size < whole.size(); ++size) (void)ReadText(whole.substr(0, size));
    for (size_t begin = 0; begin < whole.size(); ++begin) (void)ReadText(whole.substr(begin));
  }
}

// Reading any part of these texts twice would take quadratic time.
TEST(TextContentsTest, LongTextsAreReadOnce) {
  constexpr size_t kTimes = 100'000;
  for (const std::string part : {"stablehlo.custom_call @f(", "\"stablehlo.custom_call\"() <", "func.func @main(",
                                 "stablehlo.custom_call @f() {a = (", "stablehlo.custom_call @f() : ("}) {
    std::string text = "func.func @main() ";
    for (size_t i = 0; i < kTimes; ++i) text += part;
    text += std::string(static_cast<size_t>(std::count(text.begin(), text.end(), '{')), '}');
    EXPECT_FALSE(ReadText(text).ok()) << part;
  }
}

}  // namespace
}  // namespace callout::pjrt
