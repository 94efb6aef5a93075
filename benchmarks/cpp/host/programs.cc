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

// Returns a loop whose `body` computes %w from %v.
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

std::string Network(int64_t extent, int layers, bool calls) {
  const std::string type = "tensor<" + std::to_string(extent) + "x" + std::to_string(extent) + "xf32>";
  const auto call = [&](const std::string& target, const std::string& name, const std::string& operand,
                        const std::string& result) {
    return "stablehlo.custom_call @callout.v1." + target + "(" + operand +
           ") {api_version = 4 : i32, has_side_effect = true, backend_config = {callback = \"" + name + "\"}} : (" +
           type + ") -> " + result + "\n";
  };
  std::string body, last = "%x";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    body += "%p" + n + " = stablehlo.dot_general " + last + ", %x, contracting_dims = [1] x [0] : (" + type + ", " +
            type + ") -> " + type + "\n%t" + n + " = stablehlo.tanh %p" + n + " : " + type + "\n";
    last = "%t" + n;
    if (calls && i == 0) {
      body += "%h = " + call("call", "hook", last, type);
      last = "%h";
    }
  }
  if (calls) body += call("tap", "t", last, "()");
  return Main(type, body + "return " + last + " : " + type + "\n");
}

std::string AddOne(int64_t elements) {
  const std::string type = ArrayType(elements);
  return Main(type, "%k = stablehlo.constant dense<1.0> : " + type + "\n%y = stablehlo.add %x, %k : " + type +
                        "\nreturn %y : " + type + "\n");
}

}  // namespace callout::bench
