// SPDX-License-Identifier: Apache-2.0
#include "host/programs.h"

namespace callout::bench {
namespace {

std::string ArrayType(int64_t elements) {
  return elements == 1 ? "tensor<f32>" : "tensor<" + std::to_string(elements) + "xf32>";
}

std::string Main(const std::string& type, const std::string& body) {
  return "module @bench {\nfunc.func public @main(%x: " + type + ") -> " + type + " {\n" + body + "}\n}\n";
}

// `body` makes %w of %v.
std::string Loop(int64_t elements, int64_t count, const std::string& body) {
  const std::string type = ArrayType(elements);
  return Main(type,
              "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
              "%r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, " +
                  type + "\ncond {\n%n = stablehlo.constant dense<" + std::to_string(count) +
                  "> : tensor<i32>\n%c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
                  "stablehlo.return %c : tensor<i1>\n} do {\n" +
                  body +
                  "%one = stablehlo.constant dense<1> : tensor<i32>\n%j = stablehlo.add %i, %one : tensor<i32>\n"
                  "stablehlo.return %j, %w : tensor<i32>, " +
                  type + "\n}\nreturn %r#1 : " + type + "\n");
}

}  // namespace

std::string CallLoop(const std::string& target, const std::string& config, int64_t elements, int64_t count) {
  const std::string type = ArrayType(elements);
  return Loop(elements, count,
              "%w = stablehlo.custom_call @" + target +
                  "(%v) {api_version = 4 : i32, has_side_effect = true, backend_config = {" + config + "}} : (" + type +
                  ") -> " + type + "\n");
}

std::string TapLoop(int64_t elements, int64_t count) {
  const std::string type = ArrayType(elements);
  // The barrier keeps XLA from seeing that %v never changes.
  return Loop(elements, count,
              "stablehlo.custom_call @callout.v1.tap(%v) {api_version = 4 : i32, has_side_effect = true, "
              "backend_config = {callback = \"t\"}} : (" +
                  type + ") -> ()\n%w = stablehlo.optimization_barrier %v : " + type + "\n");
}

std::string EmptyLoop(int64_t count) {
  return Loop(1, count, "%k = stablehlo.constant dense<1.0> : tensor<f32>\n%w = stablehlo.add %v, %k : tensor<f32>\n");
}

std::string AddOne(int64_t elements) {
  const std::string type = ArrayType(elements);
  return Main(type, "%k = stablehlo.constant dense<1.0> : " + type + "\n%y = stablehlo.add %x, %k : " + type +
                        "\nreturn %y : " + type + "\n");
}

}  // namespace callout::bench
