// SPDX-License-Identifier: Apache-2.0
//
// Tests ReadContents on programs that every version of this library must accept (tests/python/golden).
#include "callout/pjrt/contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Golden(const std::string& name) { return std::string(CALLOUT_GOLDEN) + "/" + name + ".bin"; }

Result<ProgramContents> Read(const std::string& name) {
  CALLOUT_ASSIGN_OR_RETURN(const Program program, Program::FromFile(Golden(name)));
  return ReadContents(program);
}

std::vector<std::string> Texts(const std::vector<ArrayType>& types) {
  std::vector<std::string> texts;
  for (const ArrayType& type : types) texts.push_back(type.ToString());
  return texts;
}

TEST(ContentsTest, TellsArgumentsResultsAndCallsInLoops) {
  const auto contents = Read("threaded_loop");
  ASSERT_THAT(contents, IsOk());
  EXPECT_THAT(Texts(contents->inputs), ElementsAre("f32[]"));
  EXPECT_THAT(Texts(contents->outputs), ElementsAre("f32[]"));
  ASSERT_EQ(contents->callbacks.size(), 2U);
  const CallbackUse& call = contents->callbacks[0];
  EXPECT_EQ(call.name, "ordered.add_one");
  EXPECT_EQ(call.target, "callout.v1.call");
  EXPECT_THAT(Texts(call.operands), ElementsAre("u32[]", "f32[]"));
  EXPECT_THAT(Texts(call.results), ElementsAre("u32[]", "f32[]"));
  EXPECT_FALSE(call.is_embedded);
  EXPECT_EQ(contents->callbacks[1].target, "callout.v1.tap");
}

TEST(ContentsTest, TellsWhichCodeAProgramCarries) {
  const auto contents = Read("cpp_embedded");
  ASSERT_THAT(contents, IsOk());
  ASSERT_EQ(contents->callbacks.size(), 1U);
  EXPECT_TRUE(contents->callbacks[0].is_embedded);
}

TEST(ContentsTest, TellsOtherCustomCalls) {
  const auto contents = Read("ffi");
  ASSERT_THAT(contents, IsOk());
  EXPECT_THAT(contents->callbacks, IsEmpty());
  ASSERT_EQ(contents->custom_calls.size(), 1U);
  EXPECT_EQ(contents->custom_calls[0].target, "test.affine");
  EXPECT_THAT(Texts(contents->custom_calls[0].operands), ElementsAre("f32[3]"));
  EXPECT_EQ(contents->custom_calls[0].given_by, "");
}

TEST(ContentsTest, TellsTheTypesOfAllElements) {
  for (const char* name :
       {"bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64", "float16",
        "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"}) {
    const auto contents = Read("dtype_" + std::string(name));
    ASSERT_THAT(contents, IsOk()) << name;
    ASSERT_EQ(contents->callbacks.size(), 2U) << name;  // a call and a tap
    EXPECT_EQ(NumpyName(contents->callbacks[0].operands.at(0).dtype), name);
  }
}

TEST(ContentsTest, SymbolicExtentsAreOpen) {
  const auto contents = Read("symbolic");
  ASSERT_THAT(contents, IsOk());
  EXPECT_THAT(Texts(contents->inputs), ElementsAre("f32[?]"));
  EXPECT_THAT(Texts(contents->outputs), ElementsAre("f32[?]"));
  ASSERT_FALSE(contents->callbacks.empty());
  EXPECT_THAT(Texts(contents->callbacks[0].operands), ElementsAre("f32[?]")) << "not what tells the result's extents";
  EXPECT_THAT(contents->custom_calls, IsEmpty()) << "not JAX's assertions of shapes";
}

TEST(ContentsTest, ReadsAllGoldenPrograms) {
  int read = 0;
  for (const auto& file : std::filesystem::directory_iterator(CALLOUT_GOLDEN)) {
    if (file.path().extension() != ".bin") continue;
    const auto program = Program::FromFile(file.path());
    if (!program.ok()) continue;
    const auto contents = ReadContents(*program);
    EXPECT_THAT(contents, IsOk()) << file.path();
    ++read;
  }
  EXPECT_GT(read, 50);
}

TEST(ContentsTest, TellsCallsOfNewerStablehlo) {
  const auto program = Program::FromFile(CALLOUT_PROGRAMS_TESTDATA "/custom_call_v2.mlirbc");
  ASSERT_THAT(program, IsOk());
  const auto contents = ReadContents(*program);
  ASSERT_THAT(contents, IsOk());
  ASSERT_EQ(contents->callbacks.size(), 1U);
  EXPECT_EQ(contents->callbacks[0].name, "scale");
  EXPECT_THAT(Texts(contents->callbacks[0].operands), ElementsAre("f32[3]"));
}

TEST(ContentsTest, NewerCallsAreRefusedInsteadOfMissed) {
  Program program = Program::FromFile(CALLOUT_PROGRAMS_TESTDATA "/custom_call_v2.mlirbc").value();
  const size_t at = program.code.find("custom_call_v2");
  ASSERT_NE(at, std::string::npos);
  program.code[at + 13] = '9';
  EXPECT_THAT(ReadContents(program), StatusIs(StatusCode::kUnimplemented, HasSubstr("'custom_call_v9'")));
}

TEST(ContentsTest, WhatItCannotReadIsSaid) {
  Program program = Program::FromFile(Golden("io")).value();
  program.code[4] = '\x0b';  // version 5
  EXPECT_THAT(ReadContents(program), StatusIs(StatusCode::kUnimplemented, HasSubstr("of version 5")));
}

// Encodes a number as MLIR's bytecode does.
std::string Number(uint32_t number) {
  const int bytes = number < 1 << 7 ? 1 : number < 1 << 14 ? 2 : number < 1 << 21 ? 3 : 4;
  uint32_t rest = number << bytes | 1U << (bytes - 1);
  std::string text;
  for (int i = 0; i < bytes; ++i, rest >>= 8) text += static_cast<char>(rest & 0xff);
  return text;
}

std::string Section(char id, const std::string& bytes) {
  return id + Number(static_cast<uint32_t>(bytes.size())) + bytes;
}

std::string Repeat(size_t times, std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += bytes;
  return text;
}

// Returns a program with calls of one target that share their name and a dictionary, so that each takes five bytes of
// the file.
Program SharingCalls(size_t calls, const std::string& target, size_t entries) {
  using namespace std::string_literals;
  const std::string dictionary = "\x0d" + Number(static_cast<uint32_t>(entries)) + Repeat(entries, "\x07\x01");
  const std::string strings = "\x0d\x05"s + Number(static_cast<uint32_t>(target.size() + 1)) + "\x0b\x1f\x11\x0b" +
                              "vhlo\0func_v1\0custom_call_v1\0main\0"s + target + "\0x\0"s;
  const std::string sizes =
      "\x0b\x03\x01\x0b\x0b\x0b" + Number(static_cast<uint32_t>(dictionary.size() << 1 | 1)) + "\x0b\x0b\x01\x03\x0f";
  Program program;
  program.code = "ML\xefR\x0dh\0"s + Section(0, strings) + Section(1, "\x03\x01\x05\x01\x05\x07\x0b") +
                 Section(3, sizes) + Section(2, "\x1d\x07\x1d\x09" + dictionary + "\x1d\x0b\x23\x01\x11\x01\x01") +
                 Section(8, "\x05\x0b\x01\x09\x01\x01\x01\x11\x01\x05\x03\x01\x01\x01\x01\x01") +
                 Section(4, Number(static_cast<uint32_t>(calls + 1) << 1) + "\x01\x40\x01\x01" +
                                Repeat(calls, "\x03\x41\x01\x05\x03"));
  return program;
}

TEST(ContentsTest, CallsMayShareTheirNamesAndAttributes) {
  const auto contents = ReadContents(SharingCalls(2000, "callout.v1.call", 16));
  ASSERT_THAT(contents, IsOk());
  EXPECT_EQ(contents->callbacks.size(), 2000U);
  const auto others = ReadContents(SharingCalls(2000, std::string(4096, 'a'), 1));
  ASSERT_THAT(others, IsOk());
  EXPECT_EQ(others->custom_calls.size(), 2000U);
}

TEST(ContentsTest, WhatSmallFilesCanAskForIsLimited) {
  EXPECT_THAT(ReadContents(SharingCalls(5000, "callout.v1.call", 1024)),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("calls have too many attributes")));
  EXPECT_THAT(ReadContents(SharingCalls(5000, std::string(4096, 'a'), 1)),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("names of the program's calls are too long")));
}

TEST(ContentsTest, ProgramsThatAreCutOffAreDamaged) {
  const Program whole = Program::FromFile(Golden("io")).value();
  Program program;
  for (size_t size = 5; size < whole.code.size(); size += 7) {
    program.code = whole.code.substr(0, size);
    EXPECT_FALSE(ReadContents(program).ok()) << size;
  }
}

}  // namespace
}  // namespace callout::pjrt
