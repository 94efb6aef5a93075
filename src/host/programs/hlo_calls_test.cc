// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/encoding/wire.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ParseDictionaryTest, ReadsStringsAtTheTop) {
  EXPECT_THAT(ParseDictionary("{callback = \"f\", every = 1 : i64, names = \"f\\0At\"}"),
              ElementsAre(Pair("callback", "f"), Pair("every", "1"), Pair("names", "f\nt")));
  EXPECT_THAT(ParseDictionary("{label = \"a\\22b\\\\\\C3\\BC\"}"), ElementsAre(Pair("label", "a\"b\\\xc3\xbc")));
}

TEST(ParseDictionaryTest, IsNotDeceivedByWhatLiesInside) {
  EXPECT_THAT(ParseDictionary("{attributes = {callback = \"inner\", x = [1, 2]}, callback = \"outer, y = 3}\"}"),
              ElementsAre(Pair("attributes", ""), Pair("callback", "outer, y = 3}")));
  EXPECT_THAT(ParseDictionary("{\"odd = key\" = \"v\", k = array<i64: 1, 2>}"),
              ElementsAre(Pair("k", ""), Pair("odd = key", "v")));
}

TEST(ParseDictionaryTest, EndsWithItsText) {
  EXPECT_THAT(ParseDictionary(""), IsEmpty());
  EXPECT_THAT(ParseDictionary("{callback = \"f"), ElementsAre(Pair("callback", "f")));
  EXPECT_THAT(ParseDictionary("{callback = \"f\\"), ElementsAre(Pair("callback", "f\\")));
}

std::string Shape(int element_type, const std::vector<int64_t>& dims) {
  WireWriter shape;
  shape.AddNumber(2, static_cast<uint64_t>(element_type));
  for (const int64_t extent : dims) shape.AddNumber(3, static_cast<uint64_t>(extent));
  return shape.bytes();
}

// A computation of a parameter f32[4] and a call of `config` with it and a token, which returns s32[2] and a token.
std::string Module(const std::string& config) {
  WireWriter parameter, tuple, call, computation, module;
  parameter.AddMessage(3, Shape(11, {4}));
  parameter.AddNumber(35, 1);
  tuple.AddNumber(2, 13);
  tuple.AddMessage(4, Shape(4, {2}));
  tuple.AddMessage(4, Shape(17, {}));
  call.AddMessage(3, tuple.bytes());
  call.AddMessage(28, "callout.v1.call");
  call.AddNumber(35, 2);
  call.AddNumber(36, 1);
  call.AddMessage(43, config);
  computation.AddMessage(2, parameter.bytes());
  computation.AddMessage(2, call.bytes());
  module.AddMessage(3, computation.bytes());
  return module.bytes();
}

TEST(HloCallsTest, FindsCallsAndTheirTypes) {
  const auto calls = ParseHloCalls(Module("{callback = \"f\"}"));
  ASSERT_THAT(calls, IsOk());
  ASSERT_EQ(calls->size(), 1U);
  const pjrt::CallbackUse& call = calls->front();
  EXPECT_EQ(call.name, "f");
  EXPECT_EQ(call.target, "callout.v1.call");
  EXPECT_FALSE(call.is_embedded);
  EXPECT_THAT(call.operands, ElementsAre(pjrt::ArrayType{DType::kFloat32, {4}}));
  EXPECT_THAT(call.results, ElementsAre(pjrt::ArrayType{DType::kInt32, {2}}));
}

TEST(HloCallsTest, KnowsCodeThatTheProgramCarries) {
  const auto calls = ParseHloCalls(Module("{callback = \"f\", library = {bytes = \"...\"}}"));
  ASSERT_THAT(calls, IsOk());
  EXPECT_TRUE(calls->front().is_embedded);
}

TEST(HloCallsTest, AnyByteMayBeWrong) {
  const std::string module = Module("{callback = \"f\"}");
  for (size_t i = 0; i < module.size(); ++i) {
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      std::string bytes = module;
      bytes[i] = wrong;
      const auto calls = ParseHloCalls(bytes);
      EXPECT_TRUE(!calls.ok() || calls->size() <= 1);
    }
  }
}

}  // namespace
}  // namespace callout::internal
