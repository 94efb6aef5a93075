// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/encoding/wire.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) bytes += static_cast<char>(number);  // each number is below 128
  return bytes;
}

std::string ModuleShape(int element_type, const std::vector<int64_t>& dims) {
  WireWriter shape;
  shape.AddNumber(2, static_cast<uint64_t>(element_type));
  if (!dims.empty()) shape.AddMessage(3, Packed(dims));
  return shape.bytes();
}

// Returns an OpSharding whose dimensions are unpacked, as proto2 writes them.
std::string TiledOver(const std::vector<int64_t>& tiles, const std::vector<int64_t>& devices, bool last = false) {
  WireWriter sharding;
  sharding.AddNumber(1, 3);
  for (const int64_t tile : tiles) sharding.AddNumber(3, static_cast<uint64_t>(tile));
  for (const int64_t device : devices) sharding.AddNumber(4, static_cast<uint64_t>(device));
  if (last) sharding.AddNumber(6, 1);
  return sharding.bytes();
}

std::string TiledByIota(const std::vector<int64_t>& tiles, const std::vector<int64_t>& dims,
                        const std::vector<int64_t>& permutation) {
  WireWriter sharding;
  sharding.AddNumber(1, 3);
  sharding.AddMessage(3, Packed(tiles));
  sharding.AddMessage(9, Packed(dims));
  sharding.AddMessage(10, Packed(permutation));
  return sharding.bytes();
}

// Returns a module main(f32[3,4], s32[2]) -> (f32[3,4], s32[]), whose first argument is sharded over two devices and
// donated.
std::string TwoDeviceModule() {
  WireWriter tuple, program_shape, output_sharding, alias, aliases, module;
  tuple.AddNumber(2, 13);
  tuple.AddMessage(4, ModuleShape(11, {3, 4}));
  tuple.AddMessage(4, ModuleShape(4, {}));
  program_shape.AddMessage(1, ModuleShape(11, {3, 4}));
  program_shape.AddMessage(1, ModuleShape(4, {2}));
  program_shape.AddMessage(2, tuple.bytes());
  output_sharding.AddNumber(1, 2);
  output_sharding.AddMessage(5, TiledOver({1, 2}, {0, 1}));
  output_sharding.AddMessage(5, "");
  alias.AddMessage(1, "");
  alias.AddNumber(2, 0);
  aliases.AddMessage(1, alias.bytes());
  module.AddMessage(1, "main");
  module.AddMessage(4, program_shape.bytes());
  module.AddMessage(8, aliases.bytes());
  module.AddMessage(12, output_sharding.bytes());
  module.AddMessage(14, TiledOver({1, 2}, {0, 1}));
  module.AddMessage(14, "");
  return module.bytes();
}

TEST(HloSignatureTest, ReadsTypesShardingsAndDonations) {
  const auto signature = ParseHloSignature(TwoDeviceModule(), 2);
  ASSERT_THAT(signature, IsOk());
  ASSERT_EQ(signature->inputs.size(), 2U);
  EXPECT_EQ(signature->inputs[0].type.ToString(), "f32[3,4]");
  EXPECT_EQ(signature->inputs[0].WholeType().ToString(), "f32[3,8]");
  EXPECT_THAT(signature->inputs[0].sharding.parts, ElementsAre(ElementsAre(0, 0), ElementsAre(0, 1)));
  EXPECT_EQ(signature->inputs[1].WholeType().ToString(), "s32[2]");
  ASSERT_EQ(signature->outputs.size(), 2U);
  EXPECT_EQ(signature->outputs[0].WholeType().ToString(), "f32[3,8]");
  EXPECT_EQ(signature->outputs[1].WholeType().ToString(), "s32[]");
  EXPECT_THAT(signature->donatable, ElementsAre(0));
}

TEST(HloSignatureTest, OneResultIsNoTuple) {
  WireWriter program_shape, module;
  program_shape.AddMessage(2, ModuleShape(11, {2}));
  module.AddMessage(4, program_shape.bytes());
  const auto signature = ParseHloSignature(module.bytes(), 1);
  ASSERT_THAT(signature, IsOk());
  EXPECT_TRUE(signature->inputs.empty());
  ASSERT_EQ(signature->outputs.size(), 1U);
  EXPECT_EQ(signature->outputs[0].type.ToString(), "f32[2]");
}

TEST(HloSignatureTest, ArraysThatAreTooLargeAsAWholeAreRefused) {
  WireWriter huge, program_shape, module;
  huge.AddNumber(2, 11);
  huge.AddNumber(3, uint64_t{1} << 62U);
  program_shape.AddMessage(1, huge.bytes());
  program_shape.AddMessage(2, ModuleShape(11, {}));
  module.AddMessage(4, program_shape.bytes());
  module.AddMessage(14, TiledOver({2}, {0, 1}));
  EXPECT_THAT(ParseHloSignature(module.bytes(), 2), StatusIs(StatusCode::kInternal, "a form that is not known"));
}

TEST(HloSignatureTest, AnyByteMayBeWrong) {
  const std::string module = TwoDeviceModule();
  for (size_t i = 0; i < module.size(); ++i) {
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      std::string bytes = module;
      bytes[i] = wrong;
      (void)ParseHloSignature(bytes, 2);
      (void)ParseHloSignature(bytes.substr(0, i), 2);
    }
  }
  EXPECT_THAT(ParseHloSignature("", 1), StatusIs(StatusCode::kInternal, "a form that is not known"));
  EXPECT_THAT(ParseHloSignature("\xff", 1), StatusIs(StatusCode::kInternal, "a form that is not known"));
}

TEST(HloShardingTest, NothingAndReplicatedAreTheWholeArray) {
  const auto sharding = ParseSharding("", 2, 3);
  ASSERT_THAT(sharding, IsOk());
  EXPECT_THAT(sharding->tiles, ElementsAre(1, 1));
  EXPECT_THAT(sharding->parts, ElementsAre(ElementsAre(0, 0), ElementsAre(0, 0), ElementsAre(0, 0)));
}

TEST(HloShardingTest, DevicesMayBeListedInAnyOrder) {
  const auto sharding = ParseSharding(TiledOver({2, 2}, {3, 1, 2, 0}), 2, 4);
  ASSERT_THAT(sharding, IsOk());
  EXPECT_THAT(sharding->parts, ElementsAre(ElementsAre(1, 1), ElementsAre(0, 1), ElementsAre(1, 0), ElementsAre(0, 0)));
}

TEST(HloShardingTest, DevicesMayBeAnIotaTransposed) {
  // The transpose of iota(4) as 2x2 is 0 2 1 3.
  const auto sharding = ParseSharding(TiledByIota({4}, {2, 2}, {1, 0}), 1, 4);
  ASSERT_THAT(sharding, IsOk());
  EXPECT_THAT(sharding->parts, ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(1), ElementsAre(3)));
}

TEST(HloShardingTest, PartsMayBeOnSeveralDevices) {
  const auto sharding = ParseSharding(TiledOver({2, 2}, {0, 1, 2, 3}, /*last=*/true), 1, 4);
  ASSERT_THAT(sharding, IsOk());
  EXPECT_THAT(sharding->tiles, ElementsAre(2));
  EXPECT_THAT(sharding->parts, ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(1), ElementsAre(1)));
}

TEST(HloShardingTest, RefusesWhatItDoesNotKnow) {
  WireWriter maximal;
  maximal.AddNumber(1, 1);
  EXPECT_THAT(ParseSharding(maximal.bytes(), 1, 2), StatusIs(StatusCode::kUnimplemented, "of type 1"));
  EXPECT_THAT(ParseSharding(TiledOver({3}, {0, 1, 2}), 1, 2), StatusIs(StatusCode::kInternal, "over 3 devices"));
  EXPECT_THAT(ParseSharding(TiledOver({2}, {0, 7}), 1, 2), StatusIs(StatusCode::kInternal, "a device 7"));
  EXPECT_THAT(ParseSharding(TiledByIota({2}, {2}, {5}), 1, 2), StatusIs(StatusCode::kInternal, "over 2 devices"));
}

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

// Returns a computation with a parameter f32[4] and a call of `config` with the parameter and a token, which returns
// s32[2] and a token.
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
