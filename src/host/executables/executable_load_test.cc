// SPDX-License-Identifier: Apache-2.0
//
// Tests executables as bytes and in a cache, options of compilations, and deadlines, on the CPU plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "host/executables/executable_file.h"
#include "host/lapack/library.h"
#include "testing/c_api_fixture.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/log_capture.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

constexpr size_t kLoadExtent = 128;  // large enough that XLA:CPU does not run the program on the calling thread

class ExecutableLoadTest : public internal::CpuClientTest {
 protected:
  void SetUp() override {
    internal::CpuClientTest::SetUp();
    std::string pattern = ::testing::TempDir() + "callout_cache_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    internal::CpuClientTest::TearDown();
  }

  static LoadedHostCallback Function(std::function<Status(const Call&)> function) {
    return FunctionCallback("f", std::move(function)).Make().value();
  }
  // Returns options in which "f" adds `k` to f32[4].
  static CompileOptions Adding(float k) {
    return {.loaded_host_callbacks = {Function([k](const Call& call) {
              for (int64_t i = 0; i < 4; ++i) call.result<float>(0)[i] = call.arg<float>(0)[i] + k;
              return OkStatus();
            })}};
  }
  static float FirstResult(const std::shared_ptr<const Client>& client, const LoadedExecutable& executable) {
    const std::vector<int64_t> dims = {4};
    const Buffer x = Buffer::FromHost(client, client->devices()[0], dims, std::vector<float>{1, 2, 3, 4}).value();
    const auto outputs = executable.Run({&x});
    EXPECT_THAT(outputs, internal::IsOk());
    return outputs.ok() ? outputs->at(0).ToVector<float>().value()[0] : 0;
  }

  // Compiles, serializes and loads, then serializes and loads the loaded executable, with runners and without.
  static void RunThroughTwoGenerations(const std::string& model) {
    for (const int runs : {0, 2}) {
      const auto client = MakeClient({.concurrent_runs = runs});
      const Compiler compiler(client);
      const auto compiled = compiler.Compile({model}, Adding(1));
      ASSERT_THAT(compiled, internal::IsOk());
      EXPECT_EQ(FirstResult(client, *compiled), 2);
      const std::string bytes = compiled->Serialize().value();
      const auto loaded = compiler.Load(bytes, Adding(10));
      ASSERT_THAT(loaded, internal::IsOk());
      EXPECT_EQ(FirstResult(client, *loaded), 11);
      EXPECT_TRUE(loaded->Serialize().value() == bytes);
      const auto again = compiler.Load(loaded->Serialize().value(), Adding(20));
      ASSERT_THAT(again, internal::IsOk());
      EXPECT_EQ(FirstResult(client, *again), 21);
    }
  }

  std::string folder_;
};

TEST_F(ExecutableLoadTest, LoadedExecutablesCallWhatIsBoundThen) {
  const auto client = MakeClient();
  const Compiler compiler(client);
  std::string bytes;
  {
    const auto executable = compiler.Compile({testdata::Chain({"f"})}, Adding(1));
    ASSERT_THAT(executable, internal::IsOk());
    bytes = executable->Serialize().value();
  }
  const auto loaded = compiler.Load(bytes, Adding(10));
  ASSERT_THAT(loaded, internal::IsOk());
  EXPECT_EQ(FirstResult(client, *loaded), 11);
  EXPECT_THAT(loaded->callback_names(), ElementsAre("f"));
  EXPECT_EQ(loaded->ReadSignature()->inputs[0].type.ToString(), "f32[4]");
  EXPECT_THAT(compiler.Load(bytes), internal::StatusIs(StatusCode::kNotFound, HasSubstr("'f'")));
}

// The plugin drops the object code of an executable that it loads, so a loaded executable serializes to the bytes that
// it came from.
TEST_F(ExecutableLoadTest, ModelsRunThroughTwoGenerations) { RunThroughTwoGenerations(testdata::Model("f")); }

TEST_F(ExecutableLoadTest, ModelsWithLapackRunThroughTwoGenerations) {
  const auto lapack = internal::lapack::LibraryPath();
  if (!lapack.ok()) GTEST_SKIP() << lapack.status().c_message();
  RunThroughTwoGenerations(testdata::Model("f", /*has_lapack=*/true));
}

// The client that loads an executable decides whether it runs on runners, not the client that compiled it.
TEST_F(ExecutableLoadTest, RunnersAreUsedByExecutablesOfClientsWithoutThem) {
  const auto without = MakeClient({.concurrent_runs = 0}), with = MakeClient({.concurrent_runs = 2});
  CompileOptions options = Adding(1);
  options.cache_directory = folder_ + "/cache";
  ASSERT_THAT(Compiler(without).Compile({testdata::Model("f")}, options), internal::IsOk());
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  options.loaded_host_callbacks = {Function([&](const Call&) {  // two concurrent runs take two runners
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    return changed.wait_for(lock, std::chrono::minutes(1), [&] { return inside == 2; }) ? OkStatus()
                                                                                        : InternalError("alone");
  })};
  const auto executable = Compiler(with).Compile({testdata::Model("f")}, options);
  ASSERT_THAT(executable, internal::IsOk());
  EXPECT_TRUE(executable->is_from_cache());
  const std::vector<int64_t> dims = {4};
  const Buffer x = Buffer::FromHost(with, with->devices()[0], dims, std::vector<float>(4)).value();
  std::thread other([&] { EXPECT_THAT(executable->Run({&x}), internal::IsOk()); });
  EXPECT_THAT(executable->Run({&x}), internal::IsOk());
  other.join();
}

TEST_F(ExecutableLoadTest, ExecutablesOfRunnersLoadWithAndWithoutThem) {
  const auto client = MakeClient();
  const std::string code = testdata::ProductThenCall("f", int{kLoadExtent});
  const CompileOptions options = {.loaded_host_callbacks = {Function([](const Call&) { return OkStatus(); })},
                                  .device_assignment = {1}};
  const std::string bytes = Compiler(client).Compile({code}, options)->Serialize().value();
  for (const int runs : {0, 2}) {
    std::atomic<int> device{-1};
    const auto other = MakeClient({.concurrent_runs = runs});
    const auto loaded = Compiler(other).Load(bytes, {.loaded_host_callbacks = {Function([&](const Call& call) {
                                                       device = call.device_ordinal();
                                                       return OkStatus();
                                                     })}});
    ASSERT_THAT(loaded, internal::IsOk());
    const std::vector<int64_t> dims = {int64_t{kLoadExtent}, int64_t{kLoadExtent}};
    const Buffer x =
        Buffer::FromHost(other, other->devices()[1], dims, std::vector<float>(kLoadExtent * kLoadExtent, 0.5F)).value();
    EXPECT_THAT(loaded->Run({&x}), internal::IsOk());
    EXPECT_EQ(device, 1);
  }
}

TEST_F(ExecutableLoadTest, WhatIsNoExecutableIsRefused) {
  const auto client = MakeClient();
  const Compiler compiler(client);
  std::string bytes = compiler.Compile({testdata::Chain({"f"})}, Adding(1))->Serialize().value();
  EXPECT_THAT(compiler.Load("", Adding(1)),
              internal::StatusIs(StatusCode::kInvalidArgument, HasSubstr("no executable")));
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_THAT(compiler.Load(bytes, Adding(1)), internal::StatusIs(StatusCode::kInvalidArgument, HasSubstr("damaged")));
}

TEST_F(ExecutableLoadTest, TheCacheIsAskedFirst) {
  const auto client = MakeClient();
  const Compiler compiler(client);
  for (const bool is_found : {false, true}) {
    CompileOptions options = Adding(is_found ? 10 : 1);
    options.cache_directory = folder_ + "/cache";
    const auto executable = compiler.Compile({testdata::Chain({"f"})}, options);
    ASSERT_THAT(executable, internal::IsOk());
    EXPECT_EQ(executable->is_from_cache(), is_found);
    EXPECT_EQ(FirstResult(client, *executable), is_found ? 11 : 2);
  }
  CompileOptions other = Adding(1);
  other.cache_directory = folder_ + "/cache";
  EXPECT_FALSE(compiler.Compile({testdata::Chain({"f", "f"})}, other)->is_from_cache());
  other.device_assignment = {1};
  EXPECT_FALSE(compiler.Compile({testdata::Chain({"f"})}, other)->is_from_cache());
  EXPECT_TRUE(compiler.Compile({testdata::Chain({"f"})}, other)->is_from_cache());
  other.xla_options = {{"xla_cpu_enable_fast_math", true}};
  EXPECT_FALSE(compiler.Compile({testdata::Chain({"f"})}, other)->is_from_cache());
  other.xla_options = {{"xla_cpu_enable_fast_math", false}};
  EXPECT_FALSE(compiler.Compile({testdata::Chain({"f"})}, other)->is_from_cache());
}

// Two builds of one version differ only in the plugin's file.
TEST_F(ExecutableLoadTest, PluginsDoNotShareWhatTheyCompiled) {
  const std::string path = folder_ + "/another_plugin.so";
  std::filesystem::copy_file(CALLOUT_TEST_PLUGIN, path);
  std::ofstream(path, std::ios::binary | std::ios::app) << "of another build";
  const auto other_plugin = Plugin::Load(path);
  ASSERT_THAT(other_plugin, internal::IsOk());
  const auto client = MakeClient();
  const auto other = Client::Create(*other_plugin, {.values = {{"cpu_device_count", int64_t{2}}}}).value();
  CompileOptions options = Adding(1);
  options.cache_directory = folder_ + "/cache";
  for (const bool is_known : {false, true}) {
    for (const auto& each : {client, other}) {
      const auto executable = Compiler(each).Compile({testdata::Chain({"f"})}, options);
      ASSERT_THAT(executable, internal::IsOk());
      EXPECT_EQ(executable->is_from_cache(), is_known);
      EXPECT_EQ(FirstResult(each, *executable), 2);
    }
  }
  const std::filesystem::directory_iterator files(options.cache_directory);
  EXPECT_EQ(std::distance(files, {}), 2);
  const std::string bytes = Compiler(client).Compile({testdata::Chain({"f"})}, Adding(1))->Serialize().value();
  EXPECT_THAT(Compiler(other).Load(bytes, Adding(1)),
              internal::StatusIs(StatusCode::kFailedPrecondition, HasSubstr("made by another plugin or machine")));
}

TEST_F(ExecutableLoadTest, ModelsAreFoundInTheCacheAndRun) {
  const auto client = MakeClient();
  CompileOptions options = Adding(1);
  options.cache_directory = folder_ + "/cache";
  for (const bool is_found : {false, true, true}) {
    const auto executable = Compiler(client).Compile({testdata::Model("f")}, options);
    ASSERT_THAT(executable, internal::IsOk());
    EXPECT_EQ(executable->is_from_cache(), is_found);
    EXPECT_EQ(FirstResult(client, *executable), 2);
  }
}

TEST_F(ExecutableLoadTest, WhatCannotBeLoadedFromTheCacheIsReplacedWithAWarning) {
  const auto client = MakeClient();
  const Compiler compiler(client);
  CompileOptions options = Adding(1);
  options.cache_directory = folder_ + "/cache";
  ASSERT_THAT(compiler.Compile({testdata::Model("f")}, options), internal::IsOk());
  const std::filesystem::path file = *std::filesystem::directory_iterator(options.cache_directory);
  const auto damaged = internal::ExecutableFile{internal::MadeBy(*client), false, 0, "no code of the plugin's"}.Write();
  std::ofstream(file, std::ios::binary) << damaged;
  CompileOptions unbound;
  unbound.cache_directory = options.cache_directory;
  EXPECT_THAT(compiler.Compile({testdata::Model("f")}, unbound), internal::StatusIs(StatusCode::kNotFound, "'f'"));
  internal::LogCapture log;
  const auto executable = compiler.Compile({testdata::Model("f")}, options);
  ASSERT_THAT(executable, internal::IsOk());
  EXPECT_FALSE(executable->is_from_cache());
  EXPECT_THAT(log.messages(), ElementsAre(HasSubstr("cannot be loaded; it was compiled again, and is replaced: ")));
  EXPECT_EQ(FirstResult(client, *executable), 2);
  EXPECT_TRUE(compiler.Compile({testdata::Model("f")}, options)->is_from_cache());
}

TEST_F(ExecutableLoadTest, DamagedFilesOfTheCacheAreReplaced) {
  const auto client = MakeClient();
  const Compiler compiler(client);
  CompileOptions options = Adding(1);
  options.cache_directory = folder_ + "/cache";
  ASSERT_THAT(compiler.Compile({testdata::Chain({"f"})}, options), internal::IsOk());
  const std::filesystem::path file = *std::filesystem::directory_iterator(options.cache_directory);
  for (const std::string& contents : {std::string(), std::string("callout executable 2\n"), std::string(100, 'x')}) {
    std::ofstream(file, std::ios::binary) << contents;
    const auto again = compiler.Compile({testdata::Chain({"f"})}, options);
    ASSERT_THAT(again, internal::IsOk());
    EXPECT_FALSE(again->is_from_cache());
    EXPECT_EQ(FirstResult(client, *again), 2);
    EXPECT_TRUE(compiler.Compile({testdata::Chain({"f"})}, options)->is_from_cache());
  }
  CompileOptions unbound;
  unbound.cache_directory = options.cache_directory;
  EXPECT_THAT(compiler.Compile({testdata::Chain({"f"})}, unbound),
              internal::StatusIs(StatusCode::kNotFound, HasSubstr("'f'")));
}

TEST_F(ExecutableLoadTest, OptionsOfXlaAreTakenByName) {
  const auto client = MakeClient();
  const Compiler compiler(client);
  CompileOptions options = Adding(1);
  options.xla_options = {{"xla_cpu_enable_fast_math", true},
                         {"xla_backend_optimization_level", int64_t{1}},
                         {"xla_dump_hlo_module_re", std::string("nothing")}};
  EXPECT_THAT(compiler.Compile({testdata::Chain({"f"})}, options), internal::IsOk());
  options.xla_options = {{"xla_no_such_option", true}};
  EXPECT_THAT(compiler.Compile({testdata::Chain({"f"})}, options),
              internal::StatusIs(StatusCode::kInvalidArgument, HasSubstr("xla_no_such_option")));
  options.xla_options = {{"xla_cpu_enable_fast_math", std::vector<int64_t>{1}}};
  EXPECT_THAT(compiler.Compile({testdata::Chain({"f"})}, options),
              internal::StatusIs(StatusCode::kInvalidArgument, HasSubstr("cannot be a list")));
}

TEST_F(ExecutableLoadTest, RunsEndAtTheirDeadlineAndGoOn) {
  const auto client = MakeClient();
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  std::atomic<int> ended{0};
  const auto executable = Compiler(client).Compile({testdata::ProductThenCall("f", int{kLoadExtent})},
                                                   {.loaded_host_callbacks = {Function([&](const Call&) {
                                                      std::unique_lock lock(mutex);
                                                      changed.wait(lock, [&] { return is_open; });
                                                      ++ended;
                                                      return OkStatus();
                                                    })}});
  ASSERT_THAT(executable, internal::IsOk());
  const std::vector<int64_t> dims = {int64_t{kLoadExtent}, int64_t{kLoadExtent}};
  const Buffer x =
      Buffer::FromHost(client, client->devices()[0], dims, std::vector<float>(kLoadExtent * kLoadExtent, 0.5F)).value();
  EXPECT_THAT(executable->Run({&x}, {.timeout = std::chrono::milliseconds(1)}),
              internal::StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("was not done in time; it goes on")));
  {
    const std::lock_guard lock(mutex);
    is_open = true;
    changed.notify_all();
  }
  EXPECT_THAT(executable->Run({&x}, {.timeout = std::chrono::hours(1)}), internal::IsOk());
  EXPECT_GE(ended, 1);
}

// XLA:CPU runs such a program before Execute returns, so nothing is running at the deadline.
TEST_F(ExecutableLoadTest, ALightProgramEndsAfterItsDeadlineWithItsResults) {
  const auto client = MakeClient();
  std::thread::id called_on;
  const auto function = [&](const Call& call) {
    called_on = std::this_thread::get_id();
    for (int64_t i = 0; i < 4; ++i) call.result<float>(0)[i] = 7;
    return OkStatus();
  };
  const auto executable =
      Compiler(client).Compile({testdata::Chain({"f"})}, {.loaded_host_callbacks = {Function(function)}});
  ASSERT_THAT(executable, internal::IsOk());
  const std::vector<int64_t> dims = {4};
  const Buffer x = Buffer::FromHost(client, client->devices()[0], dims, std::vector<float>(4, 1)).value();
  const auto outputs = executable->Run({&x}, {.timeout = std::chrono::nanoseconds(1)});
  ASSERT_THAT(outputs, internal::IsOk());
  EXPECT_EQ(outputs->at(0).ToVector<float>().value()[0], 7);
  EXPECT_EQ(called_on, std::this_thread::get_id());
}

}  // namespace
}  // namespace callout::pjrt

namespace callout {
namespace {

using CApiLoadTest = CApiRunTest;

TEST_F(CApiLoadTest, ExecutablesAreSerializedAndLoaded) {
  Adder adder{.k = 1};
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", adder);
  callout_bytes* bytes = nullptr;
  ASSERT_THAT(Take(callout_executable_serialize(executable, &bytes)), IsOk());
  EXPECT_EQ(callout_executable_is_from_cache(executable), 0);
  callout_executable_destroy(executable);
  Adder other{.k = 10};
  callout_callback* callback = MakeAdder("f", other);
  callout_compile_options options = {};
  // A host that was compiled before `xla_options` existed.
  options.struct_size = offsetof(callout_compile_options, xla_options);
  options.callbacks = &callback;
  options.num_callbacks = 1;
  callout_executable* loaded = nullptr;
  ASSERT_THAT(
      Take(callout_executable_load(client_, callout_bytes_data(bytes), callout_bytes_size(bytes), &options, &loaded)),
      IsOk());
  EXPECT_THAT(Take(callout_executable_load(client_, callout_bytes_data(bytes), callout_bytes_size(bytes) - 1, &options,
                                           &loaded)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("damaged, or cut off")));
  callout_callback_destroy(callback);
  callout_bytes_destroy(bytes);
  Values values = {};
  const callout_execute_options run = {sizeof(run), 0, 0, nullptr, 0, 3600, nullptr, nullptr};
  EXPECT_THAT(Run(loaded, &values, &run), IsOk());
  EXPECT_THAT(values, ElementsAre(11, 12, 13, 14));
  callout_executable_destroy(loaded);
  EXPECT_EQ(callout_bytes_data(nullptr), nullptr);
  EXPECT_EQ(callout_bytes_size(nullptr), 0U);
}

}  // namespace
}  // namespace callout
