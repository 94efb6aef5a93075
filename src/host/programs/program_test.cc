// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exported_generated.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::ElementsAre;

constexpr char kText[] = "module @m { func.func public @main() { return } }";
const std::string kBytecode("ML\xefR\x0dStableHLO_v1.15.0\0...", 26);

// Writes the part of Exported.serialize's file that Callout reads.
std::string Serialize(const std::string& code, const std::string& jax_version = "0.12.0") {
  flatbuffers::FlatBufferBuilder builder;
  const auto platforms = builder.CreateVectorOfStrings({"cpu", "cuda"});
  const auto effect = exported::CreateEffectDirect(builder, "callout.IoEffect");
  const auto effects = builder.CreateVector(&effect, 1);
  const auto module = builder.CreateVector(reinterpret_cast<const uint8_t*>(code.data()), code.size());
  const auto kept = builder.CreateVector(std::vector<uint16_t>{0, 2});
  const auto name = builder.CreateString("train");
  const auto version = builder.CreateString(jax_version);
  exported::ExportedBuilder file(builder);
  file.add_function_name(name);
  file.add_platforms(platforms);
  file.add_ordered_effects(effects);
  file.add_mlir_module_serialized(module);
  file.add_module_kept_var_idx(kept);
  file.add_nr_devices(2);
  file.add_uses_global_constants(true);
  file.add_jax_version(version);
  builder.Finish(file.Finish());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

TEST(ProgramTest, TextAndBytecodeAreTakenAsTheyAre) {
  for (const std::string& code : {std::string(kText), kBytecode}) {
    const auto program = Program::FromBytes(code);
    ASSERT_THAT(program, IsOk());
    EXPECT_EQ(program->code, code);
    EXPECT_EQ(program->num_devices, 0);
    EXPECT_TRUE(program->platforms.empty());
  }
}

TEST(ProgramTest, ASerializedExportSaysWhatItHolds) {
  const auto program = Program::FromBytes(Serialize(kBytecode));
  ASSERT_THAT(program, IsOk());
  EXPECT_EQ(program->code, kBytecode);
  EXPECT_EQ(program->name, "train");
  EXPECT_THAT(program->platforms, ElementsAre("cpu", "cuda"));
  EXPECT_EQ(program->num_devices, 2);
  EXPECT_THAT(program->kept_arguments, ElementsAre(0, 2));
  EXPECT_EQ(program->num_tokens, 1U);
  EXPECT_TRUE(program->has_dimension_arguments);
  EXPECT_EQ(program->written_by, "jax 0.12.0");
  EXPECT_EQ(program->StablehloVersion(), "1.15.0");
}

TEST(ProgramTest, WhatIsNoProgramIsRefused) {
  const std::string file = Serialize(kBytecode);
  for (const std::string& bytes : {std::string(), std::string("\0\0\0\0", 4), std::string("hello"), Serialize(""),
                                   file.substr(0, file.size() / 2), std::string(100, '\xff')}) {
    EXPECT_THAT(Program::FromBytes(bytes), StatusIs(StatusCode::kInvalidArgument, "bytes are no program: expected"))
        << bytes.size();
  }
}

TEST(ProgramTest, AnyByteOfAFileMayBeWrong) {
  const std::string file = Serialize(kBytecode);
  for (size_t i = 0; i < file.size(); ++i) {
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      std::string bytes = file;
      bytes[i] = wrong;
      const auto program = Program::FromBytes(bytes);  // must not read beyond the bytes, whatever they are
      EXPECT_TRUE(!program.ok() || program->code.size() <= bytes.size());
    }
  }
}

TEST(ProgramTest, AFolderIsNoProgram) {
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(Program::FromFile(folder).status(), StatusIs(StatusCode::kNotFound, "'" + folder + "': Is a directory"));
}

TEST(ProgramTest, OnlyArtifactsHaveAStablehloVersion) {
  EXPECT_EQ(Program{.code = kText}.StablehloVersion(), "");
  EXPECT_EQ(Program{.code = "ML\xefR plain bytecode"}.StablehloVersion(), "");
}

TEST(ArrayTypeTest, IsWrittenAsXlaDoes) {
  EXPECT_EQ((ArrayType{DType::kFloat32, {2, 3}}).ToString(), "f32[2,3]");
  EXPECT_EQ((ArrayType{DType::kBool, {}}).ToString(), "bool[]");
}

}  // namespace
}  // namespace callout::pjrt
