// SPDX-License-Identifier: Apache-2.0
//
// Programs in MLIR text; of f32[4] where they do not say otherwise.
#pragma once

#include <string>
#include <vector>

namespace callout::testdata {

/// Calls `names` one after the other, each with what the last returned.
inline std::string Chain(const std::vector<std::string>& names) {
  std::string code = "module @m {\nfunc.func public @main(%0: tensor<4xf32>) -> tensor<4xf32> {\n";
  for (size_t i = 0; i < names.size(); ++i) {
    code += "%" + std::to_string(i + 1) + " = stablehlo.custom_call @callout.v1.call(%" + std::to_string(i) +
            ") {api_version = 4 : i32, has_side_effect = true, backend_config = {callback = \"" + names[i] +
            "\"}} : (tensor<4xf32>) -> tensor<4xf32>\n";
  }
  return code + "return %" + std::to_string(names.size()) + " : tensor<4xf32>\n}\n}\n";
}

/// Taps its argument `count` times, doubled after each, and returns it.
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

/// Calls `name` with the square of its argument, a matrix of `extent`, for no result; returns the square.
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

}  // namespace callout::testdata
