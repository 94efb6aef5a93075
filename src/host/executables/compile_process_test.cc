// SPDX-License-Identifier: Apache-2.0
//
// Programs that the command compiles for a host in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "host/executables/compile_process.h"
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
  void SetUp() override {
    internal::OneCpuClientTest::SetUp();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    internal::OneCpuClientTest::TearDown();
  }
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

  std::string folder_ = ::testing::TempDir() + "callout_process_XXXXXX";
};

TEST_F(CompileProcessTest, ProgramsRunWithThisProcessesCallbacks) {
  CompileOptions options = InProcess();
  options.loaded_host_callbacks = {Adding(10)};
  const auto executable = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(executable->callback_names(), ElementsAre("f"));
  EXPECT_THAT(RunsAs(*executable, 11), IsOk());
}

TEST_F(CompileProcessTest, ModelsRunAlsoFromTheCache) {
  CompileOptions options = InProcess();
  options.loaded_host_callbacks = {Adding(10)};
  options.cache_directory = folder_;
  for (const bool is_found : {false, true}) {
    const auto executable = Compile(testdata::Model("f"), options);
    ASSERT_THAT(executable, IsOk());
    EXPECT_EQ(executable->is_from_cache(), is_found);
    EXPECT_THAT(RunsAs(*executable, 11), IsOk());
    const auto again = Compiler(client_).Load(executable->Serialize().value(), options);
    ASSERT_THAT(again, IsOk());
    EXPECT_THAT(RunsAs(*again, 11), IsOk());
  }
}

TEST_F(CompileProcessTest, NamesAreMissedInThisProcess) {
  EXPECT_THAT(Compile(testdata::Chain({"f"}), InProcess()), StatusIs(StatusCode::kNotFound, HasSubstr("'f'")));
}

TEST_F(CompileProcessTest, WhatItCompiledIsInTheCache) {
  CompileOptions options = InProcess();
  options.loaded_host_callbacks = {Adding(1)};
  options.cache_directory = folder_;
  const auto first = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(first, IsOk());
  EXPECT_FALSE(first->is_from_cache());
  options.process.command = {"/no/such/command"};  // is not needed
  const auto second = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE(second->is_from_cache());
  options.process = {};  // nor is one that compiles here another
  EXPECT_TRUE(Compile(testdata::Chain({"f"}), options)->is_from_cache());
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

TEST_F(CompileProcessTest, AProcessThatClosesItsOutputAndRunsOnIsKilledWhenItsTimeIsOver) {
  CompileOptions options = InProcess({"/bin/sh", "-c", "exec tail -f /dev/null < /dev/null > /dev/null"});
  options.process.timeout = std::chrono::milliseconds(20);
  EXPECT_THAT(Compile(testdata::Chain({"f"}), options), StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("in time")));
}

TEST_F(CompileProcessTest, AWrapperMayFork) {
  CompileOptions options = InProcess({"/bin/sh", "-c", "'" CALLOUT_COMMAND "' compile-request; exit $?"});
  options.loaded_host_callbacks = {Adding(10)};
  const auto executable = Compile(testdata::Chain({"f"}), options);
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(RunsAs(*executable, 11), IsOk());
}

TEST_F(CompileProcessTest, ItsOwnProcessesAreNotWaitedForAndEndWithIt) {
  int ends[2];  // the write end is theirs too
  ASSERT_EQ(pipe(ends), 0);
  CompileOptions options =
      InProcess({"/bin/sh", "-c", "tail -f /dev/null & exec '" CALLOUT_COMMAND "' compile-request"});
  options.process.timeout = std::chrono::minutes(1);
  options.loaded_host_callbacks = {Adding(10)};
  const auto executable = Compile(testdata::Chain({"f"}), options);
  close(ends[1]);
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(RunsAs(*executable, 11), IsOk());
  pollfd one = {ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&one, 1, 60'000), 1) << "somebody still has the write end";
  close(ends[0]);
}

TEST_F(CompileProcessTest, AProcessMayWriteMuchBeforeItReads) {
  CompileOptions options = InProcess({"/bin/sh", "-c", "head -c 4000000 /dev/zero; cat > /dev/null; exit 3"});
  options.process.timeout = std::chrono::seconds(20);
  Program program{testdata::Chain({"f"}) + std::string(4 << 20, ' ')};  // more than a socket takes
  EXPECT_THAT(Compiler(client_).Compile(program, options),
              StatusIs(StatusCode::kInternal, HasSubstr("did not answer")));
}

TEST_F(CompileProcessTest, ItsSignalsAreNeitherIgnoredNorBlocked) {
  const auto old = std::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto looking = InProcess(
      {"/usr/bin/awk", "/^Sig(Ign|Blk):/ && $2 !~ /0000$/ { bad = 1 } END { exit bad ? 8 : 7 }", "/proc/self/status"});
  EXPECT_THAT(Compile(testdata::Chain({"f"}), looking), StatusIs(StatusCode::kInternal, HasSubstr("exit code 7")));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGUSR1, old);
}

// Its exit code, with `input` and `output` as its standard ones, and no standard error.
int Answer(int input, int output) {
  const pid_t id = fork();
  if (id == 0) {
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    close(STDERR_FILENO);
    _exit(AnswerCompileRequest());
  }
  close(output);
  int state = 0;
  waitpid(id, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

TEST(AnswerCompileRequestTest, ItNeedsNoStandardError) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(Answer(open("/dev/null", O_RDONLY | O_CLOEXEC), ends[1]), 0);
  char said[256] = {};
  EXPECT_GT(read(ends[0], said, sizeof(said)), 0);
  EXPECT_THAT(std::string(said, sizeof(said)), HasSubstr("this is no message"));
  close(ends[0]);
}

TEST(AnswerCompileRequestTest, ItEndsWithWhoAsked) {
  std::string folder = ::testing::TempDir() + "callout_process_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  internal::CompileRequest request;
  request.plugin = folder + "/plugin.so";
  ASSERT_EQ(mkfifo(request.plugin.c_str(), 0600), 0);  // nobody ever writes to it: to load it takes for ever
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const std::string asked = request.Write();
  ASSERT_EQ(write(sockets[0], asked.data(), asked.size()), static_cast<ssize_t>(asked.size()));
  const pid_t other = fork();  // stands for a wrapper that lives on
  if (other == 0) {
    close(sockets[0]);
    _exit(Answer(sockets[1], sockets[1]));
  }
  close(sockets[1]);
  close(sockets[0]);
  int state = 0;
  waitpid(other, &state, 0);
  EXPECT_EQ(WEXITSTATUS(state), 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace callout::pjrt

namespace callout {
namespace {

using CApiCompileProcessTest = CApiRunTest;

TEST_F(CApiCompileProcessTest, ModelsThatAnotherProcessCompiledRunThroughTwoGenerations) {
  Adder adder{.k = 1};
  callout_callback* callback = MakeAdder("f", adder);
  const char* const command[] = {CALLOUT_COMMAND, "compile-request", nullptr};
  callout_compile_options options = {};
  options.struct_size = sizeof(options);
  options.callbacks = &callback;
  options.num_callbacks = 1;
  options.process_command = command;
  const std::string model = testdata::Model("f");
  callout_program* program = nullptr;
  ASSERT_THAT(Take(callout_program_from_bytes(model.data(), model.size(), &program)), IsOk());
  callout_executable* executable = nullptr;
  ASSERT_THAT(Take(callout_compile(client_, program, &options, &executable)), IsOk());
  callout_program_destroy(program);
  for (int generation = 0; generation < 3; ++generation) {
    Values values = {};
    EXPECT_THAT(Run(executable, &values), IsOk());
    EXPECT_THAT(values, ElementsAre(2, 3, 4, 5));
    callout_bytes* bytes = nullptr;
    ASSERT_THAT(Take(callout_executable_serialize(executable, &bytes)), IsOk());
    callout_executable_destroy(executable);
    executable = nullptr;
    ASSERT_THAT(Take(callout_executable_load(client_, callout_bytes_data(bytes), callout_bytes_size(bytes), &options,
                                             &executable)),
                IsOk());
    callout_bytes_destroy(bytes);
  }
  callout_executable_destroy(executable);
  callout_callback_destroy(callback);
}

}  // namespace
}  // namespace callout
