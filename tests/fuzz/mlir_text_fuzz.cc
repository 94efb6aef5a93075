// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes programs in MLIR text whose send and receive ops become calls.
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/host_transfer.h"
#include "fuzz.h"
#include "host/transfers/preparation.h"
#include "mutation.h"

namespace callout::fuzz {
namespace {

using pjrt::HostTransfer;
using pjrt::HostTransferCallback;
using pjrt::LoadedHostCallback;

LoadedHostCallback Make(const char* name, std::vector<HostTransfer> operands, std::vector<HostTransfer> results) {
  const pjrt::HostTransfers transfers = {std::move(operands), std::move(results)};
  auto made = HostTransferCallback(name, transfers, [](const Call&) { return OkStatus(); }).Make();
  CALLOUT_CHECK(made.ok(), "the callbacks of this target can be made");
  return std::move(made).value();
}

// Returns true if every bracket is closed by one of its kind. Text with unbalanced brackets is no program: MLIR rejects
// it before and after the rewriting, which promises nothing about such text.
bool IsBalanced(std::string_view text) {
  std::string open;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '(' || c == '[' || c == '{' || c == '<') open += c;
    const bool is_arrow = c == '>' && i > 0 && text[i - 1] == '-';
    if ((c != ')' && c != ']' && c != '}' && c != '>') || is_arrow) continue;
    const char like = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<';
    if (open.empty() || open.back() != like) return false;
    open.pop_back();
  }
  return open.empty() && !in_string;
}

}  // namespace

void Try(std::string_view bytes) {
  static const std::vector<LoadedHostCallback> callbacks = {
      Make("f", {{1, DType::kFloat32, {}}, {2, DType::kFloat32, {4}}}, {{3, DType::kInt32, {}}}),
      Make("g", {{4, DType::kFloat32, {}}}, {})};
  (void)internal::PrepareHostTransfers(bytes, callbacks, "cuda");
  const Result<std::string> once = internal::PrepareHostTransfers(bytes, callbacks, "cpu");
  if (!once.ok() || !IsBalanced(bytes)) return;
  const Result<std::string> twice = internal::PrepareHostTransfers(*once, callbacks, "cpu");
  CALLOUT_CHECK(twice.ok() && *twice == *once, "ops are left, or the calls cannot be read");
}

}  // namespace callout::fuzz

namespace {

constexpr const char* kPieces[] = {
    "module @m {",
    "func.func public @main(",
    "func.func private @g(",
    "func.call @g(",
    "call @g(",
    "-> ",
    "return",
    "%0",
    "%1",
    "%1:2",
    "%1#0",
    "%1#1",
    "%x",
    "%y",
    ": ",
    "tensor<f32>",
    "tensor<4xf32>",
    "tensor<i32>",
    "tensor<?xf32>",
    "!stablehlo.token",
    "tuple<tensor<f32>, !stablehlo.token>",
    "\"stablehlo.send\"",
    "\"stablehlo.recv\"",
    "stablehlo.after_all",
    "stablehlo.while(",
    "\"stablehlo.if\"",
    "({",
    "^bb0(%a: tensor<f32>):",
    "cond {",
    "} do {",
    "}",
    "<{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}>",
    "handle = 2",
    "handle = 3",
    "handle = 4",
    "type = 3",
    "is_host_transfer = false",
    "mhlo.frontend_attributes = {_xla_host_transfer_rendezvous = \"f\"}",
    "{mhlo.sharding = \"{maximal device=0}\"}",
    "loc(\"a\"(#loc1))",
    "#loc1 = loc(unknown)",
    "// a comment",
    "\n",
    "\\22",
    "dense<[0, 1]>"};

// Whole ops: one value that is sent, one that is received, and the ops around them.
constexpr const char* kLines[] = {
    "%t = stablehlo.after_all : !stablehlo.token\n",
    "%1 = \"stablehlo.send\"(%x, %0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, "
    "is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token\n",
    "%2 = \"stablehlo.send\"(%y, %1) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, "
    "is_host_transfer = true, mhlo.sharding = \"{maximal device=0}\"} : (tensor<4xf32>, !stablehlo.token) -> "
    "!stablehlo.token loc(#loc1)\n",
    "%3:2 = \"stablehlo.recv\"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, "
    "is_host_transfer = true}> : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)\n",
    "%4 = call @g(%x, %3#1) : (tensor<f32>, !stablehlo.token) -> !stablehlo.token\n",
    "%5:2 = stablehlo.while(%a = %x, %b = %3#1) : tensor<f32>, !stablehlo.token\n",
    "cond {\n",
    "} do {\n",
    "}\n",
    "stablehlo.return %a, %b : tensor<f32>, !stablehlo.token\n",
    "func.func private @g(%x: tensor<f32>, %0: !stablehlo.token) -> !stablehlo.token {\n",
    "return %1 : !stablehlo.token\n",
    "#loc1 = loc(\"a/b.py\":1:2)\n"};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using callout::fuzz::Mutation;
  return callout::fuzz::MutateInput(data, size, max_size, seed, [](Mutation& mutation, const std::string& text) {
    return mutation.OneIn(2) ? mutation.Tokens(text, "\n", kLines) : mutation.Tokens(text, " ,:()<>{}\"=\n", kPieces);
  });
}
