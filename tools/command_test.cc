// SPDX-License-Identifier: Apache-2.0
//
// Tests of the command as a process: its arguments, its output and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "session.h"
#include "testing/status_matchers.h"

namespace callout::tools {
namespace {

using internal::StatusIs;
using ::testing::HasSubstr;

// Returns the exit code of a shell that runs the command with these arguments and redirections.
int ExitCode(const std::string& arguments) {
  const int status = std::system((std::string(CALLOUT_COMMAND " ") + arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Returns what the command prints.
std::string Output(const std::string& arguments) {
  std::FILE* output = popen((std::string(CALLOUT_COMMAND " ") + arguments).c_str(), "r");
  std::string text;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) text += static_cast<char>(c);
  pclose(output);
  return text;
}

TEST(CommandTest, OutputThatNobodyGetsIsAFailure) {
  EXPECT_EQ(ExitCode("--version > /dev/null"), kSuccess);
  EXPECT_EQ(ExitCode("--version > /dev/full 2> /dev/null"), kFailed);
  EXPECT_EQ(ExitCode("--version >&- 2> /dev/null"), kFailed);
}

TEST(CommandTest, WhatCannotBeRunIsUnusable) {
  const std::string folder = ::testing::TempDir();
  EXPECT_EQ(ExitCode("run " + folder + " 2> /dev/null"), kUnusable);
  EXPECT_EQ(ExitCode("info --device-count 0 2> /dev/null"), kUnusable);
  EXPECT_EQ(ExitCode("info --device-count 1000000000 2> /dev/null"), kUnusable);
  EXPECT_EQ(ExitCode("info --device-count 1000000000 2>&-"), kUnusable);
}

// The exception passes through the command's C++ library, which is not the plugin's.
TEST(CommandTest, PluginThatThrowsIsUnusable) {
  EXPECT_EQ(ExitCode("info --plugin " CALLOUT_THROWING_PLUGIN " 2> /dev/null"), kUnusable);
  EXPECT_EQ(ExitCode("info --plugin " CALLOUT_THROWING_LIBRARY " 2> /dev/null"), kUnusable);
}

#ifdef CALLOUT_TEST_PLUGIN
TEST(CommandTest, InfoTellsWhatHasToBeBound) {
  const std::string path = ::testing::TempDir() + "/prints.mlir";
  std::ofstream(path) << R"(func.func public @main(%x: tensor<4xf32>) {
    stablehlo.custom_call @callout.v1.tap(%x) {api_version = 4 : i32, has_side_effect = true,
        backend_config = {callback = "id_print:1;1000;1000000;;l0"}} : (tensor<4xf32>) -> ()
    stablehlo.custom_call @callout.v1.tap(%x) {api_version = 4 : i32, has_side_effect = true,
        backend_config = {callback = "it's"}} : (tensor<4xf32>) -> ()
    return
  })";
  const std::string text = Output("info " + path + " --plugin " CALLOUT_TEST_PLUGIN);
  EXPECT_THAT(text, HasSubstr("  id_print (f32[4])\n"));
  EXPECT_THAT(text, HasSubstr("\n  to run it: --bind 'it'\\''s=...'\n"));
}
#endif

TEST(CommandTest, InfoNeedsNoPluginWhereItDoesNotCompile) {
  const std::string text = Output("info --no-compile " CALLOUT_GOLDEN "/native_call.bin --plugin /no/such.so");
  EXPECT_THAT(text, HasSubstr("\n  platforms cpu\n  argument 0: f32[3]\n  result 0: f32[3]\n"
                              "  call 'native' (f32[3]) -> (f32[3])\n  to run it: --bind 'native=...'\n"));
  EXPECT_THAT(Output("info " CALLOUT_GOLDEN "/symbolic.bin --plugin /no/such.so"),
              HasSubstr("\n  of symbolic shapes: to run it, export it for some, shapes=[...]\n  argument 0: f32[?]\n"));
}

TEST(SessionTest, NoProgramIsForMoreDevicesThanAProcessHas) {
  pjrt::Program program;
  program.num_devices = 1 << 20;
  EXPECT_THAT(DevicesOf(program, 0), StatusIs(StatusCode::kInvalidArgument, "at most 2048"));
}

}  // namespace
}  // namespace callout::tools
