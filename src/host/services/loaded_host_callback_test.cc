// SPDX-License-Identifier: Apache-2.0
//
// Tests programs with callbacks on the real CPU plugin.
#include "callout/pjrt/host_callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "callout/pjrt/executable.h"
#include "core/base/live_count.h"
#include "testing/c_closures.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Program Chain(const std::vector<std::string>& names) { return {testdata::Chain(names)}; }
Program TapLoop(const std::string& name, int count) { return {testdata::TapLoop(name, count)}; }

class LoadedHostCallbackTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN);
    ASSERT_TRUE(plugin.ok()) << plugin.status().message();
    auto client = Client::Create(plugin.value(), {.values = {{"cpu_device_count", int64_t{2}}}});
    ASSERT_TRUE(client.ok()) << client.status().message();
    client_ = new std::shared_ptr<const Client>(std::move(client).value());
  }
  static void TearDownTestSuite() {
    delete client_;
    client_ = nullptr;
  }

  static LoadedHostCallback Function(std::string name, std::function<Status(const Call&)> function) {
    auto callback = compiler().MakeLoadedHostCallback(FunctionCallback(std::move(name), std::move(function)));
    EXPECT_TRUE(callback.ok());
    return std::move(callback).value();
  }
  // Returns a callback that adds `k` to every element.
  static LoadedHostCallback Adds(std::string name, float k) {
    return Function(std::move(name), [k](const Call& call) {
      const auto x = call.arg<float>(0);
      const auto y = call.result<float>(0);
      for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + k;
      return OkStatus();
    });
  }
  static Compiler compiler() { return Compiler(*client_); }
  static Buffer Argument(std::vector<float> values = {1, 2, 3, 4}, size_t device = 0) {
    const std::vector<int64_t> dims = {4};
    auto buffer = Buffer::FromHost(*client_, (*client_)->devices()[device], dims, values);
    EXPECT_TRUE(buffer.ok());
    return std::move(buffer).value();
  }
  static std::vector<float> Run(const LoadedExecutable& executable, int32_t run_id = 0) {
    const Buffer x = Argument();
    auto outputs = executable.Run({&x}, {.run_id = run_id});
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return outputs.ok() ? outputs.value()[0].ToVector<float>().value() : std::vector<float>();
  }

  static std::shared_ptr<const Client>* client_;
};

std::shared_ptr<const Client>* LoadedHostCallbackTest::client_ = nullptr;

TEST_F(LoadedHostCallbackTest, CallsFunctionsByTheirNames) {
  auto executable =
      compiler().Compile(Chain({"one", "ten", "one"}), {.loaded_host_callbacks = {Adds("one", 1), Adds("ten", 10)}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_THAT(Run(executable.value()), ElementsAre(13, 14, 15, 16));
  EXPECT_THAT(executable.value().callback_names(), ElementsAre("one", "ten"));
  EXPECT_EQ(executable.value().num_outputs(), 1U);
  EXPECT_EQ(executable.value().num_devices(), 1U);
}

TEST_F(LoadedHostCallbackTest, NamesBelongToTheirProgram) {
  auto first = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Adds("f", 1)}});
  auto second = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Adds("f", 2)}});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(Run(first.value()), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(Run(second.value()), ElementsAre(3, 4, 5, 6));
}

TEST_F(LoadedHostCallbackTest, TheExecutableKeepsItsCallbacks) {
  const auto before = internal::LiveCount(internal::LiveKind::kCallback);
  {
    auto compile = [] { return compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Adds("f", 1)}}); };
    auto executable = compile();
    ASSERT_TRUE(executable.ok());
    EXPECT_EQ(internal::LiveCount(internal::LiveKind::kCallback), before + 1);
    EXPECT_THAT(Run(executable.value()), ElementsAre(2, 3, 4, 5));
  }
  EXPECT_EQ(internal::LiveCount(internal::LiveKind::kCallback), before);
}

TEST_F(LoadedHostCallbackTest, ACallbackOutlivesExecutablesThatShareIt) {
  const LoadedHostCallback shared = Adds("f", 1);
  for (int i = 0; i < 2; ++i) {
    auto executable = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {shared}});
    ASSERT_TRUE(executable.ok());
    EXPECT_THAT(Run(executable.value()), ElementsAre(2, 3, 4, 5));
  }
}

TEST_F(LoadedHostCallbackTest, ClosuresAreEndedWithTheLastThatUsesThem) {
  testdata::Adder ten{.k = 10};
  {
    const ClosureCallback args("f", ten.closure());
    auto once = compiler().MakeLoadedHostCallback(args);
    auto twice = compiler().MakeLoadedHostCallback(args);
    ASSERT_TRUE(once.ok() && twice.ok());
    EXPECT_EQ(once.value().callback(), twice.value().callback());
    auto executable = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {once.value()}});
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    EXPECT_THAT(Run(executable.value()), ElementsAre(11, 12, 13, 14));
    EXPECT_EQ(ten.destroyed, 0);
  }
  EXPECT_EQ(ten.destroyed, 1);
}

TEST_F(LoadedHostCallbackTest, WhatIsNoClosureIsRefused) {
  testdata::Adder adder;
  callout_closure closure = adder.closure();
  closure.struct_size = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(compiler().MakeLoadedHostCallback(ClosureCallback("f", closure)),
                StatusIs(StatusCode::kInvalidArgument, "the closure for 'f' has struct_size 0"));
  }
  EXPECT_EQ(adder.destroyed, 0);
}

TEST_F(LoadedHostCallbackTest, AnUnboundNameFailsTheCompilation) {
  auto executable = compiler().Compile(Chain({"f", "g"}), {.loaded_host_callbacks = {Adds("f", 1)}});
  EXPECT_EQ(executable.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(executable.status().kind(), StatusKind::kUnboundName);
  EXPECT_THAT(std::string(executable.status().message()), HasSubstr("no callback is bound to the name 'g'"));
}

TEST_F(LoadedHostCallbackTest, TwoCallbacksOfOneNameAreRefused) {
  auto executable = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Adds("f", 1), Adds("f", 2)}});
  EXPECT_THAT(std::string(executable.status().message()), HasSubstr("two callbacks are bound to the name 'f'"));
}

TEST_F(LoadedHostCallbackTest, AFailureIsTheCallersWithCodeTextAndKind) {
  const auto fails = [](const Call&) { return Status(StatusCode::kDataLoss, "the disk is gone", StatusKind::kCheck); };
  auto executable = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Function("f", fails)}});
  ASSERT_TRUE(executable.ok());
  const Buffer x = Argument();
  const auto outputs = executable.value().Run({&x});
  EXPECT_EQ(outputs.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(outputs.status().kind(), StatusKind::kCheck);
  EXPECT_EQ(outputs.status().message(), "callout: callback 'f' failed on device 0: the disk is gone");
}

TEST_F(LoadedHostCallbackTest, WhatACallbackThrowsIsItsError) {
  auto executable =
      compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Function("f", [](const Call& call) -> Status {
                                          if (call.num_args() == 1) throw std::runtime_error("thrown");
                                          return OkStatus();
                                        })}});
  ASSERT_TRUE(executable.ok());
  const Buffer x = Argument();
  EXPECT_THAT(std::string(executable.value().Run({&x}).status().message()), HasSubstr("thrown"));
  EXPECT_THAT(std::string(executable.value().Run({&x}).status().message()), HasSubstr("thrown"));
}

TEST_F(LoadedHostCallbackTest, TheRunIsKnown) {
  std::atomic<int64_t> seen{0};
  auto executable = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Function("f", [&](const Call& call) {
                                                        seen = call.run_id();
                                                        return OkStatus();
                                                      })}});
  ASSERT_TRUE(executable.ok());
  (void)Run(executable.value(), 77);
  EXPECT_EQ(seen.load(), 77);
}

TEST_F(LoadedHostCallbackTest, TapsAreDeliveredInOrder) {
  std::mutex mutex;
  std::vector<float> seen;
  auto executable = compiler().Compile(TapLoop("t", 3), {.loaded_host_callbacks = {Function("t", [&](const Call& call) {
                                                           const std::lock_guard lock(mutex);
                                                           seen.push_back(call.arg<float>(0)[1]);
                                                           return OkStatus();
                                                         })}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  EXPECT_THAT(Run(executable.value()), ElementsAre(8, 16, 24, 32));
  ASSERT_TRUE(BarrierWait().ok());
  EXPECT_THAT(seen, ElementsAre(2, 4, 8));
}

TEST_F(LoadedHostCallbackTest, AFailingTapIsTheBarriers) {
  auto executable =
      compiler().Compile(TapLoop("t", 2), {.loaded_host_callbacks = {Function("t", [](const Call&) {
                                             return Status(StatusCode::kNotFound, "tap failed", StatusKind::kMemory);
                                           })}});
  ASSERT_TRUE(executable.ok());
  EXPECT_THAT(Run(executable.value()), ElementsAre(4, 8, 12, 16));
  const Status status = BarrierWait();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.kind(), StatusKind::kMemory);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("2 taps failed"), HasSubstr("tap failed")));
  EXPECT_TRUE(BarrierWait().ok());
}

// A function can use all fields that the C ABI gives to its call.
TEST_F(LoadedHostCallbackTest, AFunctionHasAllOfTheCall) {
  const auto ask = [](const Call& call) -> Status {
    const callout_call& raw = *call.raw();
    void* const scratch = raw.allocate(raw.allocator, 100, 64);
    if (scratch == nullptr) return InternalError("no scratch");
    raw.set_error(raw.error_context, 15, "the disk is gone", 16);
    return InvalidArgument("not this time");
  };
  const std::string text = "not this time: the disk is gone";
  const auto call = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Function("f", ask)}});
  ASSERT_TRUE(call.ok());
  const Buffer x = Argument();
  EXPECT_THAT(call.value().Run({&x}).status(), StatusIs(StatusCode::kInvalidArgument, text));
  const auto tap = compiler().Compile(TapLoop("t", 1), {.loaded_host_callbacks = {Function("t", ask)}});
  ASSERT_TRUE(tap.ok());
  (void)Run(tap.value());
  EXPECT_THAT(BarrierWait(), StatusIs(StatusCode::kInvalidArgument, text));
}

TEST_F(LoadedHostCallbackTest, ABarrierInAForkedChildSaysSoAtOnce) {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  const auto executable = compiler().Compile(
      TapLoop("t", 2),
      {.loaded_host_callbacks = {Function("t", [&](const Call&) { return opened.wait(), OkStatus(); })}});
  ASSERT_TRUE(executable.ok());
  (void)Run(executable.value());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(BarrierWait().code() == StatusCode::kFailedPrecondition ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  open.set_value();
  EXPECT_TRUE(BarrierWait().ok());
}

TEST_F(LoadedHostCallbackTest, SinksTakeTaps) {
  const std::string path = ::testing::TempDir() + "/taps.jsonl";
  auto sink = compiler().MakeLoadedHostCallback(SinkCallback("t", SinkCallback::Kind::kJsonLines, path));
  ASSERT_TRUE(sink.ok()) << sink.status().message();
  auto executable = compiler().Compile(TapLoop("t", 2), {.loaded_host_callbacks = {sink.value()}});
  ASSERT_TRUE(executable.ok());
  (void)Run(executable.value(), 5);
  ASSERT_TRUE(BarrierWait().ok());
  std::ifstream file(path);
  const std::string written(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(written, AllOf(HasSubstr("\"run\": 5"), HasSubstr("[1,2,3,4]"), HasSubstr("[2,4,6,8]")));
}

TEST_F(LoadedHostCallbackTest, PrintsOfJaxNeedNoBinding) {
  const auto executable = compiler().Compile(TapLoop("id_print:1;1000;1000000;twhat:%20x%20,d;l0", 2));
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(Run(executable.value()), ElementsAre(4, 8, 12, 16));
  EXPECT_TRUE(BarrierWait().ok());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "what: x cpu:0\n[1. 2. 3. 4.]\nwhat: x cpu:0\n[2. 4. 6. 8.]\n");
}

TEST_F(LoadedHostCallbackTest, PrintsMayBeBoundToSomethingElse) {
  const std::string name = "id_print:1;1000;1000000;;l0";
  std::atomic<int> taps{0};
  const auto executable =
      compiler().Compile(TapLoop(name, 2), {.loaded_host_callbacks = {Function(name, [&](const Call&) {
                                              ++taps;
                                              return OkStatus();
                                            })}});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  (void)Run(executable.value());
  EXPECT_TRUE(BarrierWait().ok());
  EXPECT_EQ(taps.load(), 2);
}

TEST_F(LoadedHostCallbackTest, PrintsThatCannotBeReadFailTheCompilation) {
  const auto executable = compiler().Compile(TapLoop("id_print:1;1000;1000000;t%4;l0", 2));
  EXPECT_EQ(executable.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(executable.status().message()), HasSubstr("two hexadecimal digits"));
}

TEST_F(LoadedHostCallbackTest, ReplicasCallFromTheirDevices) {
  std::mutex mutex;
  std::vector<int> devices;
  auto executable = compiler().Compile(
      Chain({"f"}), {.loaded_host_callbacks = {Function("f",
                                                        [&](const Call& call) {
                                                          const std::lock_guard lock(mutex);
                                                          devices.push_back(call.device_ordinal());
                                                          call.result<float>(0)[0] =
                                                              static_cast<float>(call.device_ordinal());
                                                          return OkStatus();
                                                        })},
                     .num_replicas = 2});
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  const Buffer x = Argument();
  const Buffer y = Argument({5, 6, 7, 8}, 1);
  const std::vector<std::vector<const Buffer*>> arguments = {{&x}, {&y}};
  auto execution = executable.value().Execute(arguments);
  ASSERT_TRUE(execution.ok()) << execution.status().message();
  ASSERT_TRUE(execution->Wait().ok());
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(execution->outputs[i][0].ToVector<float>().value()[0], static_cast<float>(i));
  EXPECT_THAT(devices, ::testing::UnorderedElementsAre(0, 1));
  EXPECT_THAT(std::string(executable.value().Execute({arguments.data(), 1}).status().message()),
              HasSubstr("runs on 2 devices, got arguments for 1"));
}

TEST_F(LoadedHostCallbackTest, ProgramsThatCannotBeAreRefused) {
  EXPECT_FALSE(compiler().Compile({"this is no program"}).ok());
  EXPECT_EQ(Program::FromFile("/no/such/program").status().code(), StatusCode::kNotFound);
}

TEST_F(LoadedHostCallbackTest, EventsCanBeWaitedForInTime) {
  std::atomic<bool> go{false};
  auto executable = compiler().Compile(Chain({"f"}), {.loaded_host_callbacks = {Function("f", [&](const Call&) {
                                                        while (!go) std::this_thread::yield();
                                                        return OkStatus();
                                                      })}});
  ASSERT_TRUE(executable.ok());
  const Buffer x = Argument();
  // XLA runs a small program on the calling thread.
  std::thread runner([&] {
    const std::vector<const Buffer*> arguments = {&x};
    auto execution = executable.value().Execute({&arguments, 1});
    ASSERT_TRUE(execution.ok());
    EXPECT_TRUE(execution->done[0].WaitFor(std::chrono::seconds(60)).ok());
  });
  go = true;
  runner.join();
}

}  // namespace
}  // namespace callout::pjrt
