// SPDX-License-Identifier: Apache-2.0
//
// Tests both kinds of callbacks, by name and by channels. They must behave alike on the CPU plugin and on the plugin,
// such as CUDA's, that the environment variable CALLOUT_TEST_OTHER_PLUGIN names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "callout/pjrt/executable.h"
#include "callout/pjrt/host_callback.h"
#include "callout/pjrt/host_transfer.h"
#include "testing/host_programs.h"
#include "testing/host_transfer_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns "Cpu", and "Other" if the environment names another plugin.
std::vector<std::string> Plugins() {
  if (std::getenv("CALLOUT_TEST_OTHER_PLUGIN") == nullptr) return {"Cpu"};
  return {"Cpu", "Other"};
}

class PluginConformanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto plugin = Plugin::Load(GetParam() == "Cpu" ? CALLOUT_TEST_PLUGIN : std::getenv("CALLOUT_TEST_OTHER_PLUGIN"));
    ASSERT_THAT(plugin, IsOk());
    auto client = Client::Create(plugin.value());
    ASSERT_THAT(client, IsOk());
    client_ = std::move(client).value();
  }

  Compiler compiler() const { return Compiler(client_); }
  template <typename T>
  Buffer Array(const std::vector<int64_t>& dims, std::vector<T> values) const {
    auto buffer = Buffer::FromHost(client_, client_->devices()[0], dims, values);
    EXPECT_THAT(buffer, IsOk());
    return std::move(buffer).value();
  }
  // Returns a callback that adds 1, or fails.
  LoadedHostCallback AddsOne(bool fails) const {
    auto callback = compiler().MakeLoadedHostCallback(FunctionCallback("one", [fails](const Call& call) -> Status {
      if (fails) return InvalidArgument("not today");
      for (int64_t i = 0; i < 4; ++i) call.result<float>(0)[i] = call.arg<float>(0)[i] + 1;
      return OkStatus();
    }));
    EXPECT_THAT(callback, IsOk());
    return std::move(callback).value();
  }
  // Returns the program's first result for 1, 2, 3, 4.
  Result<std::vector<float>> Run(const std::string& program, const LoadedHostCallback& callback) const {
    CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable executable,
                             compiler().Compile({program}, {.loaded_host_callbacks = {callback}}));
    const Buffer x = Array<float>({4}, {1, 2, 3, 4});
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<Buffer> outputs, executable.Run({&x}));
    return outputs[0].ToVector<float>();
  }

  std::shared_ptr<const Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Plugin, PluginConformanceTest, ::testing::ValuesIn(Plugins()),
                         [](const auto& subject) { return subject.param; });

TEST_P(PluginConformanceTest, FunctionsAreCalledByTheirNames) {
  const auto sums = Run(testdata::Chain({"one", "one", "one"}), AddsOne(false));
  ASSERT_THAT(sums, IsOk());
  EXPECT_THAT(sums.value(), ElementsAre(4, 5, 6, 7));
}

TEST_P(PluginConformanceTest, AFailingFunctionFailsTheProgramAndTheNextOneRuns) {
  EXPECT_THAT(std::string(Run(testdata::Chain({"one"}), AddsOne(true)).status().message()), HasSubstr("not today"));
  EXPECT_THAT(Run(testdata::Chain({"one"}), AddsOne(false)), IsOk());
}

TEST_P(PluginConformanceTest, TapsArriveInOrder) {
  std::mutex mutex;
  std::vector<float> heard;
  auto callback = compiler().MakeLoadedHostCallback(FunctionCallback("tap", [&](const Call& call) {
    const std::lock_guard lock(mutex);
    heard.push_back(call.arg<float>(0)[0]);
    return OkStatus();
  }));
  ASSERT_THAT(callback, IsOk());
  ASSERT_THAT(Run(testdata::TapLoop("tap", 100), callback.value()), IsOk());
  ASSERT_THAT(BarrierWait(), IsOk());
  EXPECT_EQ(heard.size(), 100U);
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
}

TEST_P(PluginConformanceTest, ChannelsArriveAndReturn) {
  const HostTransfers transfers = {{{1, DType::kFloat32, {4}}, {2, DType::kInt32}},
                                   {{3, DType::kFloat32, {4}}, {4, DType::kFloat32, {2}}}};
  auto callback = compiler().MakeLoadedHostCallback(HostTransferCallback("adds", transfers, [](const Call& call) {
    const auto n = static_cast<float>(call.arg<int32_t>(1)[0]);
    for (int64_t i = 0; i < 4; ++i) call.result<float>(0)[i] = call.arg<float>(0)[i] + n;
    call.result<float>(1)[0] = call.arg<float>(0)[0];
    call.result<float>(1)[1] = call.arg<float>(0)[3];
    return OkStatus();
  }));
  ASSERT_THAT(callback, IsOk());
  auto executable = compiler().Compile({kPretty}, {.loaded_host_callbacks = {std::move(callback).value()}});
  ASSERT_THAT(executable, IsOk());
  const Buffer x = Array<float>({4}, {1, 2, 3, 4});
  const Buffer n = Array<int32_t>({}, {10});
  for (int run = 0; run < 3; ++run) {
    auto outputs = executable->Run({&x, &n});
    ASSERT_THAT(outputs, IsOk());
    EXPECT_THAT(outputs.value()[0].ToVector<float>().value(), ElementsAre(11, 12, 13, 14));
    EXPECT_THAT(outputs.value()[1].ToVector<float>().value(), ElementsAre(1, 4));
  }
}

}  // namespace
}  // namespace callout::pjrt
