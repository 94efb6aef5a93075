// SPDX-License-Identifier: Apache-2.0
#include "host/programs/exported_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exported_generated.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

std::string Part(const std::string& text) {
  std::string size;
  for (int i = 0; i < 8; ++i) size += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return size + text;
}

std::string ExportedFile(const std::string& name) {
  flatbuffers::FlatBufferBuilder builder;
  const auto function = builder.CreateString(name);
  const std::string code = "ML\xefR" + name;
  const auto module = builder.CreateVector(reinterpret_cast<const uint8_t*>(code.data()), code.size());
  exported::ExportedBuilder exported(builder);
  exported.add_function_name(function);
  exported.add_mlir_module_serialized(module);
  builder.Finish(exported.Finish());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

TEST(ShapesFileTest, HasItsProgramsInOrder) {
  const auto program = pjrt::Program::FromBytes(std::string(kShapesFile) + Part("b=3") + Part(ExportedFile("f")) +
                                                Part("b=17") + Part(ExportedFile("g")));
  ASSERT_THAT(program, IsOk());
  EXPECT_EQ(program->shapes, "b=3");
  EXPECT_EQ(program->name, "f");
  ASSERT_EQ(program->others.size(), 1U);
  EXPECT_EQ(program->others[0].shapes, "b=17");
  EXPECT_EQ(program->others[0].name, "g");
}

TEST(ShapesFileTest, DamageIsAnError) {
  const auto read = [](const std::string& rest) { return pjrt::Program::FromBytes(std::string(kShapesFile) + rest); };
  const std::string whole = Part("b=3") + Part(ExportedFile("f"));
  EXPECT_THAT(read(""), StatusIs(StatusCode::kInvalidArgument, "it has no program"));
  EXPECT_THAT(read(Part("b=3") + Part("x")), StatusIs(StatusCode::kInvalidArgument, "program for 'b=3' is none"));
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THAT(read(whole.substr(0, size)), StatusIs(StatusCode::kInvalidArgument, "it ends too early"));
  }
  EXPECT_THAT(read(std::string(8, '\xff') + "b"), StatusIs(StatusCode::kInvalidArgument, "it ends too early"));
}

}  // namespace
}  // namespace callout::internal
