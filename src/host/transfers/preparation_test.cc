// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/preparation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callout/pjrt/host_transfer.h"
#include "testing/host_transfer_programs.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using pjrt::HostTransfer;
using pjrt::HostTransferCallback;
using pjrt::HostTransfers;
using pjrt::LoadedHostCallback;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LoadedHostCallback Make(const std::string& name, std::vector<HostTransfer> operands,
                        std::vector<HostTransfer> results) {
  const HostTransfers transfers = {std::move(operands), std::move(results)};
  return HostTransferCallback(name, transfers, [](const Call&) { return OkStatus(); }).Make().value();
}

HostTransfer F32(int64_t channel, std::vector<int64_t> dims = {}) {
  return {channel, DType::kFloat32, std::move(dims)};
}

// Returns the callbacks of the programs in testdata.
std::vector<LoadedHostCallback> Adds() {
  return {Make("adds", {F32(1, {4}), {2, DType::kInt32}}, {F32(3, {4}), F32(4, {2})})};
}

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

Result<std::string> Prepare(std::string_view code, const std::vector<LoadedHostCallback>& callbacks = Adds(),
                            std::string_view platform = "cpu") {
  return PrepareHostTransfers(code, callbacks, platform);
}

constexpr std::string_view kSend =
    "%{r} = \"stablehlo.send\"(%x, %{t}) {channel_handle = #stablehlo.channel_handle<handle = {c}, type = 2>, "
    "is_host_transfer = true} : (tensor<f32>, !stablehlo.token) -> !stablehlo.token\n";
constexpr std::string_view kRecv =
    "%{r}:2 = \"stablehlo.recv\"(%{t}) {channel_handle = #stablehlo.channel_handle<handle = {c}, type = 3>, "
    "is_host_transfer = true} : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)\n";

// Returns an op of f32[] with the result %r that takes the token %t.
std::string Op(std::string_view form, const std::string& result, const std::string& token, int channel) {
  const std::string named = Replaced(Replaced(std::string(form), "{r}", result), "{t}", token);
  return Replaced(named, "{c}", std::to_string(channel));
}
std::string Send(const std::string& result, const std::string& token, int channel) {
  return Op(kSend, result, token, channel);
}
std::string Recv(const std::string& result, const std::string& token, int channel) {
  return Op(kRecv, result, token, channel);
}
std::string Main(const std::string& body) {
  return "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n%0 = stablehlo.after_all : !stablehlo.token\n" +
         body + "return %x : tensor<f32>\n}\n";
}

TEST(HostTransfersTest, NamesListChannelsInOrder) {
  EXPECT_EQ((HostTransfers{{F32(12), F32(3)}, {F32(40)}}.Name()), "channels:3,12->40");
  EXPECT_EQ((HostTransfers{{F32(1)}, {}}.Name()), "channels:1->");
}

TEST(HostTransfersTest, OneCallTakesThePlaceOfTheOps) {
  const std::string expected = R"(module @m {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<i32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %0 = stablehlo.after_all  : !stablehlo.token
    
    
    %3:3 = "stablehlo.custom_call"(%arg0, %arg1, %0) {call_target_name = "callout.v1.call", api_version = 4 : i32, has_side_effect = true, backend_config = {callback = "channels:1,2->3,4"}, operand_layouts = [dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4xf32>, tensor<i32>, !stablehlo.token) -> (tensor<4xf32>, tensor<2xf32>, !stablehlo.token)
    
    return %3#0, %3#1 : tensor<4xf32>, tensor<2xf32>
  }
}
)";
  EXPECT_THAT(Prepare(pjrt::kPretty), IsOkAndHolds(expected));
}

TEST(HostTransfersTest, TheCallHasTheLocationOfThePlace) {
  const auto generic = Prepare(pjrt::kGeneric);
  ASSERT_THAT(generic, IsOk());
  EXPECT_THAT(generic.value(), AllOf(HasSubstr("tensor<2xf32>, !stablehlo.token) loc(#loc7)\n"),
                                     Not(HasSubstr("loc(#loc5)\n")), HasSubstr("\"func.return\"(%3#0, %3#1)")));
}

TEST(HostTransfersTest, ProgramsWithoutSuchOpsStayAsTheyAre) {
  const std::string plain = Main("");
  EXPECT_THAT(Prepare(plain), IsOkAndHolds(plain));
  const std::string bytecode = "ML\xefR \"stablehlo.send\"(";
  EXPECT_THAT(Prepare(bytecode), IsOkAndHolds(bytecode));
  EXPECT_THAT(Prepare("no program {"), IsOkAndHolds(std::string("no program {")));
}

TEST(HostTransfersTest, OtherPlatformsKeepTheOps) {
  EXPECT_THAT(Prepare(pjrt::kPretty, Adds(), "cuda"), IsOkAndHolds(std::string(pjrt::kPretty)));
}

TEST(HostTransfersTest, ChainedCallbacksStayChained) {
  const auto code = Prepare(Main(Send("1", "0", 1) + Send("2", "1", 2) + Recv("3", "2", 3) + Send("4", "3#1", 4)),
                            {Make("a", {F32(1)}, {}), Make("b", {F32(2)}, {F32(3)}), Make("c", {F32(4)}, {})});
  ASSERT_THAT(code, IsOk());
  EXPECT_THAT(code.value(),
              AllOf(HasSubstr("%1 = \"stablehlo.custom_call\"(%x, %0)"), HasSubstr("\"channels:1->\""),
                    HasSubstr("%3:2 = \"stablehlo.custom_call\"(%x, %1)"), HasSubstr("\"channels:2->3\""),
                    HasSubstr("%4 = \"stablehlo.custom_call\"(%x, %3#1)"), HasSubstr("\"channels:4->\"")));
}

TEST(HostTransfersTest, OperandsAreInTheOrderOfTheirChannels) {
  const std::string ops = Replaced(Send("1", "0", 8), "%x", "%y") + Send("2", "1", 5) + Recv("3", "2", 9) +
                          Recv("4", "3#1", 7) + "%5 = stablehlo.add %3#0, %4#0 : tensor<f32>\n";
  const auto code =
      Prepare(Main("%y = stablehlo.negate %x : tensor<f32>\n" + ops), {Make("f", {F32(8), F32(5)}, {F32(9), F32(7)})});
  ASSERT_THAT(code, IsOk());
  EXPECT_THAT(code.value(), AllOf(HasSubstr("(%x, %y, %0)"), HasSubstr("stablehlo.add %3#1, %3#0")));
}

// MLIR numbers the values of sibling regions alike.
TEST(HostTransfersTest, NamesOfOtherRegionsStay) {
  const std::string branch = "%9 = \"stablehlo.if\"(%c) ({\n%3:2 = f %x\n%4:2 = g %3#1\nr %4#0\n}) : () -> ()\n";
  const auto code = Prepare(Main("{\n%4 = h\n}\n" + Send("1", "0", 1) + Recv("3", "1", 2) +
                                 Replaced(branch, "%3", "%7") + Recv("4", "3#1", 3) + "s %4#0, %4#1\n") +
                                Replaced(Main(branch), "@main", "@f"),
                            {Make("f", {F32(1)}, {F32(2), F32(3)})});
  ASSERT_THAT(code, IsOk());
  EXPECT_THAT(code.value(), AllOf(HasSubstr("%4:2 = g %7#1\nr %4#0\n"), HasSubstr("s %3#1, %3#2\n"),
                                  HasSubstr("%3:2 = f %x\n%4:2 = g %3#1\nr %4#0")));
}

struct Mismatch {
  const char* what;
  const char* with;
  const char* error;
};

class HostTransfersMismatchTest : public ::testing::TestWithParam<Mismatch> {};

TEST_P(HostTransfersMismatchTest, IsAnErrorOnEveryPlatform) {
  const std::string program = Replaced(pjrt::kPretty, GetParam().what, GetParam().with);
  ASSERT_NE(program, pjrt::kPretty);
  for (const char* platform : {"cpu", "cuda"}) {
    EXPECT_THAT(Prepare(program, Adds(), platform), StatusIs(StatusCode::kInvalidArgument, GetParam().error));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Channels, HostTransfersMismatchTest,
    ::testing::Values(
        Mismatch{
            "<handle = 1,", "<handle = 9,",
            "callout: no callback for the program's stablehlo.send on channel 9 (line 4); channels of the callbacks: "
            "1, 2, 3, 4"},
        Mismatch{"<handle = 2,", "<handle = 1,",
                 "stablehlo.send on channel 1 (line 5) of the callback 'adds': expected f32[4], got s32[]"},
        Mismatch{"<handle = 4,", "<handle = 1,",
                 "stablehlo.recv on channel 1 (line 7) of the callback 'adds': expected a stablehlo.send"},
        Mismatch{"tensor<i32>, !", "tensor<i64>, !",
                 "stablehlo.send on channel 2 (line 5) of the callback 'adds': expected s32[], got s64[]"},
        Mismatch{"(tensor<2xf32>, !", "(tensor<2x1xf32>, !", "expected f32[2], got f32[2,1]"},
        Mismatch{"(tensor<2xf32>, !", "(tensor<?xf32>, !", "expected f32[2], got f32[?]"},
        Mismatch{"(tensor<2xf32>, !", "(tensor<2xf32>, tensor<2xf32>, !", "is not in MLIR's generic form"}));

class HostTransfersMalformedTest : public ::testing::TestWithParam<Mismatch> {};

TEST_P(HostTransfersMalformedTest, IsRefused) {
  const std::string program = Replaced(pjrt::kPretty, GetParam().what, GetParam().with);
  ASSERT_NE(program, pjrt::kPretty);
  EXPECT_THAT(Prepare(program), StatusIs(StatusCode::kInvalidArgument, GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, HostTransfersMalformedTest,
    ::testing::Values(Mismatch{"module @m {", "module @m {{", "a '{' in line 1 without its counterpart"},
                      Mismatch{"module @m {", "module @m ", "a '}' in line 10 without its counterpart"},
                      Mismatch{"\"x, }\"", "\"x, }", "without its counterpart"},
                      Mismatch{"(%arg1, %1)", "(%arg1, %1", "stablehlo.send in line 5 is not in MLIR's generic form"},
                      Mismatch{"(%arg1, %1)", "(%arg1)", "stablehlo.send in line 5 is not in MLIR's generic form"},
                      Mismatch{"%3:2 =", "%3:x =", "stablehlo.recv in line 6 is not in MLIR's generic form"},
                      Mismatch{"%3:2 =", "%3:3 =", "stablehlo.recv in line 6 is not in MLIR's generic form"},
                      Mismatch{"%3:2 =", "=", "stablehlo.recv in line 6 is not in MLIR's generic form"}));

// A truncated program, or one with parts left out, must not confuse the scanner.
TEST(HostTransfersTest, NoDamageIsBeyondTheScanner) {
  for (const std::string program : {pjrt::kPretty, pjrt::kGeneric, pjrt::kByHand}) {
    for (size_t i = 0; i < program.size(); ++i) {
      (void)Prepare(program.substr(0, i));
      (void)Prepare(program.substr(0, i) + program.substr(i + 1));
      (void)Prepare(program.substr(0, i) + "<" + program.substr(i));
      (void)Prepare(program.substr(0, i) + ")" + program.substr(i));
    }
  }
}

void ExpectRefused(const std::string& body, const std::string& error,
                   const std::vector<LoadedHostCallback>& callbacks = {Make("f", {F32(1), F32(2)}, {F32(3)})}) {
  EXPECT_THAT(Prepare(Main(body), callbacks), StatusIs(StatusCode::kUnimplemented, error));
  EXPECT_THAT(Prepare(Main(body), callbacks, "cuda"), IsOkAndHolds(Main(body)));
}

TEST(HostTransfersTest, OtherPatternsAreRefusedByName) {
  ExpectRefused(Send("1", "0", 1) + Recv("2", "1", 3) + Send("3", "2#1", 2),
                "stablehlo.send on channel 2 (line 5) comes after stablehlo.recv on channel 3 (line 4)");
  ExpectRefused(Send("1", "0", 1) + Send("2", "0", 2) + Recv("3", "2", 3),
                "stablehlo.send on channel 2 (line 4) does not take the token of stablehlo.send on channel 1 (line 3)");
  ExpectRefused(Send("1", "0", 1) + Send("2", "1", 2) + Recv("3", "2", 3) + "%4 = stablehlo.after_all %1 : !t\n",
                "the token of stablehlo.send on channel 1 (line 3) is also used in line 6");
  ExpectRefused(
      Send("1", "0", 1) + Send("2", "1", 2) + "\"stablehlo.if\"(%c) ({\n" + Recv("3", "2", 3) + "}) : () -> ()\n",
      "stablehlo.recv on channel 3 (line 6) is in another region than stablehlo.send on channel 2 (line 4)");
  ExpectRefused(Send("1", "0", 1) + Send("2", "1", 4) + Send("3", "2", 2) + Recv("4", "3", 3),
                "stablehlo.send on channel 2 (line 5) does not take the token of stablehlo.send on channel 1",
                {Make("f", {F32(1), F32(2)}, {F32(3)}), Make("g", {F32(4)}, {})});
}

TEST(HostTransfersTest, TransfersBetweenDevicesAreRefused) {
  const std::string between = Replaced(Send("1", "0", 1), "is_host_transfer = true", "is_host_transfer = false");
  ExpectRefused(between, "stablehlo.send on channel 1 (line 3) is between devices, which the platform 'cpu' cannot do");
  ExpectRefused(Replaced(Send("1", "0", 1), "type = 2", "type = 1"), "is between devices");
}

TEST(HostTransfersTest, WhatACallbackLacksIsNamed) {
  EXPECT_THAT(Prepare(Main(Send("1", "0", 1)), {Make("f", {F32(1)}, {F32(3)})}),
              StatusIs(StatusCode::kInvalidArgument,
                       "the callback 'f': expected a stablehlo.recv on channel 3 in the program, got none"));
  EXPECT_THAT(Prepare(Main(Send("1", "0", 1) + Send("2", "1", 1)), {Make("f", {F32(1)}, {})}),
              StatusIs(StatusCode::kInvalidArgument,
                       "the program has both stablehlo.send on channel 1 (line 3) and "
                       "stablehlo.send on channel 1 (line 4)"));
}

TEST(HostTransfersTest, CallbacksThatTheProgramDoesNotUseAreFine) {
  EXPECT_THAT(Prepare(Main(Send("1", "0", 1)), {Make("f", {F32(1)}, {}), Make("g", {F32(7)}, {F32(8)})}), IsOk());
}

Status MakeStatus(const HostTransfers& transfers) {
  return HostTransferCallback("f", transfers, [](const Call&) { return OkStatus(); }).Make().status();
}

TEST(HostTransfersTest, CallbacksThatCannotBeAreRefused) {
  EXPECT_THAT(MakeStatus({{}, {F32(1)}}), StatusIs(StatusCode::kInvalidArgument, "has no operand on a channel"));
  EXPECT_THAT(MakeStatus({{F32(1)}, {F32(1)}}), StatusIs(StatusCode::kInvalidArgument, "'f' has channel 1 twice"));
  EXPECT_THAT(MakeStatus({{{1, DType::kToken}}, {}}), StatusIs(StatusCode::kInvalidArgument, "which no array is"));
  constexpr int64_t kMany = int64_t{1} << 40;
  EXPECT_THAT(MakeStatus({{F32(1, {kMany << 21})}, {}}), StatusIs(StatusCode::kInvalidArgument, "which no array is"));
  EXPECT_THAT(MakeStatus({{F32(1, {kMany, kMany})}, {}}), StatusIs(StatusCode::kInvalidArgument, "which no array is"));
  EXPECT_THAT(MakeStatus({{F32(1, {kMany, kMany, 0})}, {}}), IsOk());
  EXPECT_THAT(MakeStatus({{F32(1, {-1})}, {}}), StatusIs(StatusCode::kInvalidArgument, "'f' has f32[-1] on channel 1"));
  EXPECT_THAT(HostTransferCallback("f", {{F32(1)}, {}}, nullptr).Make().status(),
              StatusIs(StatusCode::kInvalidArgument, "has no function"));
}

TEST(HostTransfersTest, TwoCallbacksWithOneChannelAreRefused) {
  Bindings bindings;
  const std::vector<LoadedHostCallback> callbacks = {Make("f", {F32(1)}, {F32(2)}), Make("g", {F32(2)}, {})};
  EXPECT_THAT(BindHostTransfers(callbacks, bindings),
              StatusIs(StatusCode::kInvalidArgument, "the callbacks 'f' and 'g' both have channel 2"));
}

}  // namespace
}  // namespace callout::internal
