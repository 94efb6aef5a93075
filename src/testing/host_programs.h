// SPDX-License-Identifier: Apache-2.0
//
// Programs in MLIR text, over f32[4] unless stated otherwise.
#pragma once

#include <string>
#include <vector>

namespace callout::testdata {

/// Returns a program that calls `names` one after the other, each with the result of the previous call.
inline std::string Chain(const std::vector<std::string>& names) {
  std::string code = "module @m {\nfunc.func public @main(%0: tensor<4xf32>) -> tensor<4xf32> {\n";
  for (size_t i = 0; i < names.size(); ++i) {
    code += "%" + std::to_string(i + 1) + " = stablehlo.custom_call @callout.v1.call(%" + std::to_string(i) +
            ") {api_version = 4 : i32, has_side_effect = true, backend_config = {callback = \"" + names[i] +
            "\"}} : (tensor<4xf32>) -> tensor<4xf32>\n";
  }
  return code + "return %" + std::to_string(names.size()) + " : tensor<4xf32>\n}\n}\n";
}

/// Returns a program that taps its argument `count` times, doubling it after each tap, and returns it.
inline std::string TapLoop(const std::string& name, int count) {
  return "module @m {\nfunc.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
         "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
         "%r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>\n"
         "cond {\n%n = stablehlo.constant dense<" +
         std::to_string(count) +
         "> : tensor<i32>\n%c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
         "stablehlo.return %c : tensor<i1>\n} do {\n"
         "stablehlo.custom_call @callout.v1.tap(%v) {api_version = 4 : i32, has_side_effect = true, backend_config = "
         "{callback = \"" +
         name +
         "\"}} : (tensor<4xf32>) -> ()\n"
         "%one = stablehlo.constant dense<1> : tensor<i32>\n%j = stablehlo.add %i, %one : tensor<i32>\n"
         "%w = stablehlo.add %v, %v : tensor<4xf32>\n"
         "stablehlo.return %j, %w : tensor<i32>, tensor<4xf32>\n}\n"
         "return %r#1 : tensor<4xf32>\n}\n}\n";
}

/// Returns a program that squares its argument, a matrix of `extent`, calls `name` with the square for no result, and
/// returns the square.
inline std::string ProductThenCall(const std::string& name, int extent) {
  const std::string number = std::to_string(extent);
  const std::string matrix = "tensor<" + number + "x" + number + "xf32>";
  return "module @m {\nfunc.func public @main(%x: " + matrix + ") -> " + matrix +
         " {\n%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (" + matrix + ", " + matrix + ") -> " +
         matrix +
         "\nstablehlo.custom_call @callout.v1.call(%y) {api_version = 4 : i32, has_side_effect = true, backend_config "
         "= "
         "{callback = \"" +
         name + "\"}} : (" + matrix + ") -> ()\nreturn %y : " + matrix + "\n}\n}\n";
}

/// Returns a program with the parts of typical models: a loop of matrix products and fused operations, LAPACK's
/// Cholesky factorization if `has_lapack`, then a call of `name`, which gets the argument's values unchanged.
inline std::string Model(const std::string& name, bool has_lapack = false) {
  std::string code = R"(module @model {
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %first = stablehlo.slice %x [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  %start = stablehlo.broadcast_in_dim %first, dims = [0] : (tensor<1xf32>) -> tensor<64x64xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %loop:2 = stablehlo.while(%i = %zero, %v = %start) : tensor<i32>, tensor<64x64xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %goes_on = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %goes_on : tensor<i1>
  } do {
    %product = stablehlo.dot_general %v, %v, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %tanh = stablehlo.tanh %product : tensor<64x64xf32>
    %half = stablehlo.constant dense<0.5> : tensor<64x64xf32>
    %scaled = stablehlo.multiply %tanh, %half : tensor<64x64xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %scaled : tensor<i32>, tensor<64x64xf32>
  }
  %rows = stablehlo.iota dim = 0 : tensor<64x64xi32>
  %columns = stablehlo.iota dim = 1 : tensor<64x64xi32>
  %diagonal = stablehlo.compare EQ, %rows, %columns : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
  %large = stablehlo.constant dense<100.0> : tensor<64x64xf32>
  %matrix = stablehlo.select %diagonal, %large, %loop#1 : tensor<64x64xi1>, tensor<64x64xf32>
)";
  if (has_lapack) {
    code += R"(  %factor:2 = stablehlo.custom_call @lapack_spotrf_ffi(%matrix) {
    api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
  } : (tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<i32>)
)";
  }
  code += "  %last = stablehlo.multiply " + std::string(has_lapack ? "%factor#0" : "%matrix") +
          R"(, %matrix : tensor<64x64xf32>
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%last init: %nothing) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<f32>
  %unchanging = stablehlo.multiply %sum, %nothing : tensor<f32>
  %spread = stablehlo.broadcast_in_dim %unchanging, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %given = stablehlo.add %x, %spread : tensor<4xf32>
)" +
          "  %y = stablehlo.custom_call @callout.v1.call(%given) {api_version = 4 : i32, has_side_effect = true, "
          "backend_config = {callback = \"" +
          name + "\"}} : (tensor<4xf32>) -> tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n}\n";
  return code;
}

}  // namespace callout::testdata
