// SPDX-License-Identifier: Apache-2.0
//
// Programs that the command compiles for a host in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "testing/c_api_fixture.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;

class CompileProcessTest : public internal::OneCpuClientTest {
 protected:
  static CompileOptions InProcess(std::vector<std::string> command = {CALLOUT_COMMAND, "compile-request"}) {
    CompileOptions options;
    options.process.command = std::move(command);
    return options;
  }
  static LoadedHostCallback Adding(float k) {
    return FunctionCallback("f",
                            [k](const Call& call) {
                              for (int64_t i = 0; i < 4; ++i) call.result<float>(0)[i] = call.arg<float>(0)[i] + k;
                              return OkStatus();
                            })
        .Make()
        .value();
  }
  Result<LoadedExecutable> Compile(const std::string& code, const CompileOptions& options) const {
    return Compiler(client_).Compile({code}, options);
  }
  Status RunsAs(const LoadedExecutable& executable, float expected) const {
    const std::vector<int64_t> dims = {4};
    const Buffer x = Buffer::FromHost(client_, client_->devices()[0], dims, std::vector<float>{1, 2, 3, 4}).value();
    CALLOUT_ASSIGN_OR_RETURN(const auto outputs, executable.Run({&x}));
    CALLOUT_ASSIGN_OR_RETURN(const auto values, outputs[0].ToVector<float>());
    return values[0] == expected ? OkStatus() : InternalError("got " + std::to_string(values[0]));
  }
};

TEST_F(CompileProcessTest, ProgramsRunWithThisProcessesCallbacks) {
  CompileOptions options = InProcess();
  options.loaded_host_callbacks = {Adding(10)};
  const auto executable = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(executable->callback_names(), ElementsAre("f"));
  EXPECT_THAT(RunsAs(*executable, 11), IsOk());
}

TEST_F(CompileProcessTest, NamesAreMissedInThisProcess) {
  EXPECT_THAT(Compile(testdata::Chain({"f"}), InProcess()), StatusIs(StatusCode::kNotFound, HasSubstr("'f'")));
}

TEST_F(CompileProcessTest, WhatItCompiledIsInTheCache) {
  std::string folder = ::testing::TempDir() + "callout_process_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  CompileOptions options = InProcess();
  options.loaded_host_callbacks = {Adding(1)};
  options.cache_directory = folder;
  const auto first = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(first, IsOk());
  EXPECT_FALSE(first->is_from_cache());
  options.process.command = {"/no/such/command"};  // is not needed
  const auto second = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE(second->is_from_cache());
  options.process = {};  // nor is one that compiles here another
  EXPECT_TRUE(Compile(testdata::Chain({"f"}), options)->is_from_cache());
  std::filesystem::remove_all(folder);
}

TEST_F(CompileProcessTest, OptionsAreTheSameThere) {
  CompileOptions options = InProcess();
  options.device_assignment = {1};
  options.xla_options = {{"xla_no_such_option", true}};
  options.loaded_host_callbacks = {Adding(1)};
  EXPECT_THAT(Compile(testdata::Chain({"f"}), options),
              internal::StatusIs(StatusCode::kInvalidArgument, HasSubstr("xla_no_such_option")));
  options.xla_options = {{"xla_cpu_enable_fast_math", true}};
  const auto executable = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(executable, IsOk());
  const std::vector<int64_t> dims = {4};
  const Buffer x = Buffer::FromHost(client_, client_->devices()[1], dims, std::vector<float>(4)).value();
  EXPECT_THAT(executable->Run({&x}), IsOk());
}

TEST_F(CompileProcessTest, ItsErrorsAreThisProcesss) {
  const auto there = Compile("func garbage", InProcess()), here = Compile("func garbage", {});
  EXPECT_THAT(here, StatusIs(StatusCode::kUnknown, HasSubstr("custom op 'func' is unknown")));
  EXPECT_EQ(there.status().ToString(), here.status().ToString());
}

TEST_F(CompileProcessTest, ACrashIsAnError) {
  const auto crash = InProcess({"/bin/sh", "-c", "cat > /dev/null; kill -SEGV $$"});
  EXPECT_THAT(
      Compile(testdata::Chain({"f"}), crash),
      StatusIs(StatusCode::kInternal, AllOf(HasSubstr("was ended by signal 11"), HasSubstr(CALLOUT_TEST_PLUGIN))));
}

TEST_F(CompileProcessTest, ACrashBeforeItReadsIsAnError) {
  const auto crash = InProcess({"/bin/sh", "-c", "kill -ABRT $$"});
  Program program{testdata::Chain({"f"}) + std::string(4 << 20, ' ')};  // more than a socket takes
  EXPECT_THAT(Compiler(client_).Compile(program, crash),
              StatusIs(StatusCode::kInternal, HasSubstr("was ended by signal 6")));
}

TEST_F(CompileProcessTest, AnotherProgramIsAnError) {
  EXPECT_THAT(Compile(testdata::Chain({"f"}), InProcess({"/no/such/command"})),
              StatusIs(StatusCode::kNotFound, HasSubstr("cannot start '/no/such/command'")));
  EXPECT_THAT(Compile(testdata::Chain({"f"}), InProcess({"/bin/true"})),
              StatusIs(StatusCode::kInternal, HasSubstr("did not answer")));
}

TEST_F(CompileProcessTest, ItIsKilledWhenItsTimeIsOver) {
  CompileOptions options = InProcess({"/bin/sh", "-c", "exec tail -f /dev/null"});
  options.process.timeout = std::chrono::milliseconds(20);
  EXPECT_THAT(Compile(testdata::Chain({"f"}), options), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("in time")));
}

}  // namespace
}  // namespace callout::pjrt
