// SPDX-License-Identifier: Apache-2.0
//
// Tests programs whose callbacks block, several at a time on one device of the CPU plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "testing/c_closures.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kExtent = 128;  // large enough that XLA:CPU does not run the program on the calling thread
constexpr int kElements = kExtent * kExtent;
constexpr auto kLong = std::chrono::seconds(60);  // only a defect waits for so long

// Callbacks wait for each other, or for the test, at a gate.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  Status Wait() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLong, [&] { return is_open_; })) return OkStatus();
    return Status(StatusCode::kDeadlineExceeded, "nobody opened the gate");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

// Opens a gate when the last of `count` callers arrives.
class Rendezvous {
 public:
  explicit Rendezvous(int count) : missing_(count) {}
  Status Arrive() {
    if (--missing_ == 0) gate_.Open();
    return gate_.Wait();
  }

 private:
  std::atomic<int> missing_;
  Gate gate_;
};

std::string Matrix() { return "tensor<128x128xf32>"; }

// Returns the program f(x * x), where "f" is the callback.
std::string ProductOfCall() {
  return "module @m {\nfunc.func public @main(%x: " + Matrix() + " {tf.aliasing_output = 0 : i32}) -> " + Matrix() +
         " {\n%p = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (" + Matrix() + ", " + Matrix() +
         ") -> " + Matrix() +
         "\n%y = stablehlo.custom_call @callout.v1.call(%p) {api_version = 4 : i32, has_side_effect = true, "
         "backend_config = {callback = \"f\"}} : (" +
         Matrix() + ") -> " + Matrix() + "\nreturn %y : " + Matrix() + "\n}\n}\n";
}

std::string Product() {
  return "module @m {\nfunc.func public @main(%x: " + Matrix() + ") -> " + Matrix() +
         " {\n%p = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (" + Matrix() + ", " + Matrix() +
         ") -> " + Matrix() + "\nreturn %p : " + Matrix() + "\n}\n}\n";
}

class ConcurrencyTest : public internal::CpuClientTest {
 protected:
  // Returns an array whose elements are all `value`.
  static Buffer Filled(const std::shared_ptr<const Client>& client, float value, size_t device = 0) {
    const std::vector<int64_t> dims = {kExtent, kExtent};
    return Buffer::FromHost(client, client->devices()[device], dims, std::vector<float>(kElements, value)).value();
  }
  static LoadedExecutable Compile(const std::shared_ptr<const Client>& client, const std::string& code,
                                  std::function<Status(const Call&)> function = nullptr, int device = 0) {
    CompileOptions options;
    const Compiler compiler(client);
    options.device_assignment = {device};
    if (function) {
      options.loaded_host_callbacks = {
          compiler.MakeLoadedHostCallback(FunctionCallback("f", std::move(function))).value()};
    }
    auto executable = compiler.Compile({code}, options);
    EXPECT_THAT(executable, IsOk());
    return std::move(executable).value();
  }
  // Returns a callback that runs `first` and then copies its argument to its result.
  static std::function<Status(const Call&)> CopyAfter(std::function<Status()> first) {
    return [first = std::move(first)](const Call& call) -> Status {
      CALLOUT_RETURN_IF_ERROR(first());
      for (int64_t i = 0; i < kElements; ++i) call.result<float>(0)[i] = call.arg<float>(0)[i];
      return OkStatus();
    };
  }
  static void ExpectAll(const Buffer& buffer, float value) {
    const auto values = buffer.ToVector<float>();
    ASSERT_THAT(values, IsOk());
    EXPECT_THAT(*values, Each(value));
  }
};

TEST_F(ConcurrencyTest, RunsWhoseCallbacksWaitForEachOtherEnd) {
  constexpr int kRuns = 8;
  const auto client = MakeClient();
  Rendezvous meeting(kRuns);
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([&] { return meeting.Arrive(); }));
  const Buffer x = Filled(client, 0.5F);
  std::vector<std::thread> threads;
  threads.reserve(kRuns);
  for (int i = 0; i < kRuns; ++i) {
    threads.emplace_back([&] {
      const auto outputs = executable.Run({&x});
      ASSERT_THAT(outputs, IsOk());
      ExpectAll(outputs->at(0), 32);
      const auto others = executable.Run({&outputs->at(0)}, {.donated_inputs = {0}});
      ASSERT_THAT(others, IsOk());
      ExpectAll(others->at(0), 128 * 32 * 32);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The client prefers its first runners, one for each processor: a client with more devices than processors runs each
// program more slowly.
TEST_F(ConcurrencyTest, RunsAreOnAClientWithADeviceForEachProcessorWhileItHasOneThatIsIdle) {
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  const auto client = MakeClient({.concurrent_runs = processors + 2});
  Gate gate;
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([&] { return gate.Wait(); }));
  const Buffer x = Filled(client, 0.5F);
  const std::vector<const Buffer*> arguments = {&x};
  std::vector<Execution> executions;
  for (int i = 0; i < processors + 2; ++i) {
    auto execution = executable.Execute({&arguments, 1});
    ASSERT_THAT(execution, IsOk());
    executions.push_back(std::move(execution).value());
  }
  gate.Open();
  const auto client_of = [&](int run) { return executions[static_cast<size_t>(run)].outputs[0][0].client().get(); };
  for (int i = 1; i < processors; ++i) EXPECT_EQ(client_of(i), client_of(0)) << i;
  EXPECT_NE(client_of(processors), client_of(0));
  EXPECT_EQ(client_of(processors), client_of(processors + 1));
  for (Execution& execution : executions) {
    EXPECT_THAT(execution.Wait(), IsOk());
    ExpectAll(execution.outputs[0][0], 32);
  }
}

TEST_F(ConcurrencyTest, AProgramDoesNotWaitForTheCallbackOfAnother) {
  const auto client = MakeClient();
  Gate gate;
  const LoadedExecutable blocked = Compile(client, ProductOfCall(), CopyAfter([&] { return gate.Wait(); }));
  const LoadedExecutable product = Compile(client, Product());
  const Buffer x = Filled(client, 0.5F);
  const std::vector<const Buffer*> arguments = {&x};
  auto execution = blocked.Execute({&arguments, 1});
  ASSERT_THAT(execution, IsOk());
  const auto outputs = product.Run({&x});  // the gate is shut
  gate.Open();
  EXPECT_THAT(execution->Wait(), IsOk());
  ASSERT_THAT(outputs, IsOk());
  ExpectAll(outputs->at(0), 32);
}

TEST_F(ConcurrencyTest, ArgumentsMayBeDestroyedOnceItHasStarted) {
  const auto client = MakeClient();
  Gate gate;
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([&] { return gate.Wait(); }));
  std::vector<Execution> executions;
  for (const float value : {0.5F, 0.25F}) {
    const Buffer x = Filled(client, value);
    const std::vector<const Buffer*> arguments = {&x};
    auto execution = executable.Execute({&arguments, 1});
    ASSERT_THAT(execution, IsOk());
    executions.push_back(std::move(execution).value());
  }
  (void)Filled(client, 7);  // takes the memory of the first array if that was freed
  gate.Open();
  EXPECT_THAT(executions[0].Wait(), IsOk());
  EXPECT_THAT(executions[1].Wait(), IsOk());
  ExpectAll(executions[0].outputs[0][0], 32);
  ExpectAll(executions[1].outputs[0][0], 8);
}

TEST_F(ConcurrencyTest, EverythingMayBeDroppedWhileItRuns) {
  Gate gate;
  std::thread opens;
  {
    const auto client = MakeClient();
    const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([&] { return gate.Wait(); }));
    const Buffer x = Filled(client, 0.5F);
    const std::vector<const Buffer*> arguments = {&x};
    ASSERT_THAT(executable.Execute({&arguments, 1}), IsOk());
    opens = std::thread([&] { gate.Open(); });
  }
  opens.join();
}

TEST_F(ConcurrencyTest, OutputsAreArgumentsOfAllPrograms) {
  const auto client = MakeClient();
  const LoadedExecutable calls = Compile(client, ProductOfCall(), CopyAfter([] { return OkStatus(); }));
  const LoadedExecutable product = Compile(client, Product());
  const LoadedExecutable on_second = Compile(client, Product(), nullptr, 1);
  const Buffer x = Filled(client, 0.125F);
  const auto first = calls.Run({&x});
  ASSERT_THAT(first, IsOk());
  ExpectAll(first->at(0), 2);
  const auto second = calls.Run({&first->at(0)});
  ASSERT_THAT(second, IsOk());
  ExpectAll(second->at(0), 512);
  for (const LoadedExecutable* one : {&product, &on_second}) {
    const auto third = one->Run({&first->at(0)});
    ASSERT_THAT(third, IsOk());
    ExpectAll(third->at(0), 512);
  }
  ExpectAll(first->at(0), 2);
}

TEST_F(ConcurrencyTest, OutputsAreArgumentsOfProgramsOverSeveralDevices) {
  const auto client = MakeClient();
  const LoadedExecutable calls = Compile(client, ProductOfCall(), CopyAfter([] { return OkStatus(); }));
  const LoadedExecutable both = Compiler(client).Compile({Product()}, {.num_replicas = 2}).value();
  const Buffer x = Filled(client, 0.125F);
  const Buffer there = Filled(client, 0.125F, 1);
  const auto here = calls.Run({&x});
  ASSERT_THAT(here, IsOk());
  const auto execution = both.Execute(std::vector<std::vector<const Buffer*>>{{&here->at(0)}, {&there}});
  ASSERT_THAT(execution, IsOk());
  ExpectAll(execution->outputs[0][0], 512);
  ExpectAll(execution->outputs[1][0], 2);
}

TEST_F(ConcurrencyTest, DonatedArgumentsAreDeleted) {
  const auto client = MakeClient();
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([] { return OkStatus(); }));
  Buffer state = Filled(client, 0.0078125F);  // 1 / 128, because 128 * (1 / 128)^2 = 1 / 128
  for (int step = 0; step < 4; ++step) {
    auto outputs = executable.Run({&state}, {.donated_inputs = {0}});
    ASSERT_THAT(outputs, IsOk());
    EXPECT_TRUE(state.IsDeleted().value());
    state = std::move(outputs->at(0));
  }
  ExpectAll(state, 0.0078125F);
}

TEST_F(ConcurrencyTest, CallbacksSeeTheDeviceThatTheProgramWasCompiledFor) {
  const auto client = MakeClient();
  for (const int device : {0, 1}) {
    std::atomic<int> seen{-1};
    const LoadedExecutable executable = Compile(
        client, testdata::ProductThenCall("f", kExtent),
        [&](const Call& call) {
          seen = call.device_ordinal();
          return OkStatus();
        },
        device);
    const Buffer x = Filled(client, 0.5F, static_cast<size_t>(device));
    ASSERT_THAT(executable.Run({&x}), IsOk());
    EXPECT_EQ(seen, device);
  }
}

TEST_F(ConcurrencyTest, RunsAndViewsOnManyThreadsShareAnArray) {
  const auto client = MakeClient();
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([] { return OkStatus(); }));
  for (int round = 0; round < 10; ++round) {
    auto x = std::make_unique<Buffer>(Filled(client, 0.5F));
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int run = 0; run < 40; ++run) {
          if (i % 2 == 0) {
            EXPECT_THAT(executable.Run({x.get()}), IsOk());
          } else {
            EXPECT_EQ(x->View<float>()->values()[0], 0.5F);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    x.reset();  // memory that the last runs borrowed may not be returned yet
  }
}

TEST_F(ConcurrencyTest, MoreRunsThanRunnersWaitForEachOther) {
  const auto client = MakeClient({.concurrent_runs = 2});
  Rendezvous meeting(2);
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([&] { return meeting.Arrive(); }));
  const Buffer x = Filled(client, 0.5F);
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] { EXPECT_THAT(executable.Run({&x}), IsOk()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConcurrencyTest, ErrorsOfCallbacksHaveTheirCodeAndText) {
  const auto client = MakeClient();
  const LoadedExecutable executable =
      Compile(client, ProductOfCall(), CopyAfter([] { return NotFound("no such key"); }));
  const Buffer x = Filled(client, 0.5F);
  const auto outputs = executable.Run({&x});
  EXPECT_THAT(outputs, StatusIs(StatusCode::kNotFound,
                                ::testing::StartsWith("callout: callback 'f' failed on device 0: no such key")));
  const auto signature = executable.ReadSignature();
  ASSERT_THAT(signature, IsOk());
  EXPECT_EQ(signature->inputs[0].type.ToString(), "f32[128,128]");
}

TEST_F(ConcurrencyTest, ArgumentsOfAnotherClientAreRefused) {
  const auto client = MakeClient(), other = MakeClient();
  const Buffer x = Filled(other, 0.5F);
  for (const std::string& code : {ProductOfCall(), Product()}) {
    const LoadedExecutable executable = Compile(client, code, CopyAfter([] { return OkStatus(); }));
    EXPECT_THAT(executable.Run({&x}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("of another client")));
  }
}

TEST_F(ConcurrencyTest, RunsCanBeLeftToThePlugin) {
  const auto client = MakeClient({.concurrent_runs = 0});
  EXPECT_EQ(client->runners(), nullptr);
  const LoadedExecutable executable = Compile(client, ProductOfCall(), CopyAfter([] { return OkStatus(); }));
  const Buffer x = Filled(client, 0.5F);
  const auto outputs = executable.Run({&x});
  ASSERT_THAT(outputs, IsOk());
  ExpectAll(outputs->at(0), 32);
  const auto plugin = Plugin::Load(CALLOUT_TEST_PLUGIN).value();
  EXPECT_THAT(Client::Create(plugin, {.concurrent_runs = -1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("concurrent_runs must be from 0 to 4096, got -1")));
}

TEST_F(ConcurrencyTest, ArraysOfSmallElementsAndOfNoneAreArguments) {
  const auto client = MakeClient();
  const std::string code =
      "module @m {\nfunc.func public @main(%x: " + Matrix() +
      ", %a: tensor<3xi4>, %b: tensor<0xf32>) -> (tensor<3xi4>, tensor<0xf32>, " + Matrix() +
      ") {\n%p = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (" + Matrix() + ", " + Matrix() +
      ") -> " + Matrix() +
      "\nstablehlo.custom_call @callout.v1.call(%p) {api_version = 4 : i32, has_side_effect = true, backend_config = "
      "{callback = \"f\"}} : (" +
      Matrix() +
      ") -> ()\n%c = stablehlo.add %a, %a : tensor<3xi4>\nreturn %c, %b, %p : tensor<3xi4>, tensor<0xf32>, " +
      Matrix() + "\n}\n}\n";
  const LoadedExecutable executable = Compile(client, code, [](const Call&) { return OkStatus(); });
  const Buffer x = Filled(client, 0.5F);
  const std::vector<int64_t> three = {3}, none = {0};
  const std::vector<uint8_t> values = {1, 2, 3};
  const Buffer small = Buffer::FromHost(client, client->devices()[0], DType::kInt4, three, values.data()).value();
  const Buffer empty = Buffer::FromHost(client, client->devices()[0], none, std::vector<float>()).value();
  const auto outputs = executable.Run({&x, &small, &empty});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(outputs->at(0).ToHost().value(), ::testing::ElementsAre(std::byte{2}, std::byte{4}, std::byte{6}));
  EXPECT_THAT(outputs->at(1).ToHost().value(), IsEmpty());
}

TEST_F(ConcurrencyTest, HostsInCSayHowManyRunsThereMayBe) {
  using testdata::Take;
  callout_plugin* plugin = nullptr;
  ASSERT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk());
  callout_client_options options = {};
  // A host that was compiled before `concurrent_runs` existed.
  options.struct_size = offsetof(callout_client_options, concurrent_runs);
  callout_client* client = nullptr;
  EXPECT_THAT(Take(callout_client_create(plugin, &options, &client)), IsOk());
  callout_client_destroy(client);
  options.struct_size = sizeof(options);
  options.concurrent_runs = -2;
  EXPECT_THAT(Take(callout_client_create(plugin, &options, &client)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("concurrent_runs must be at least -1, got -2")));
  options.concurrent_runs = -1;
  EXPECT_THAT(Take(callout_client_create(plugin, &options, &client)), IsOk());
  callout_client_destroy(client);
  callout_plugin_destroy(plugin);
}

}  // namespace
}  // namespace callout::pjrt
