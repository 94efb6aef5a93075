// SPDX-License-Identifier: Apache-2.0
//
// Runs everything at once for CALLOUT_SOAK_SECONDS (1; `ci/soak.sh` takes minutes): threads compile, load, run and
// destroy, and callbacks fail. Each result is right, nothing is left behind, and memory does not grow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "callout/pjrt/executable.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSoakThreads = 8;
constexpr int kSoakExtent = 64;  // of matrices

// The context of a request: what its callbacks do.
struct Wish {
  float added;
  bool fails;
};

Status DoAsWished(const Call& call) {
  const auto* wish = static_cast<const Wish*>(call.context());
  if (wish == nullptr) return InternalError("no wish");
  if (wish->fails) return Status(StatusCode::kDataLoss, "wished " + std::to_string(wish->added));
  for (int64_t i = 0; call.num_results() > 0 && i < call.arg<float>(0).size(); ++i) {
    call.result<float>(0)[i] = call.arg<float>(0)[i] + wish->added;
  }
  return OkStatus();
}

CompileOptions SoakOptions(const Compiler& compiler) {
  CompileOptions options;
  options.loaded_host_callbacks = {
      compiler.MakeLoadedHostCallback(FunctionCallback("f", &DoAsWished)).value(),
      compiler.MakeLoadedHostCallback(SinkCallback("t", SinkCallback::Kind::kNull)).value()};
  return options;
}

// Returns the process's resident memory in MB: pages times their size.
double ResidentMegabytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096 / 1e6;
}

class SoakTest : public internal::CpuClientTest {
 protected:
  // One turn of a thread. Returns "" if everything was right.
  static std::string Turn(const std::shared_ptr<const Client>& client, int number) {
    const Compiler compiler(client);
    const bool is_matrix = number % 2 == 0;  // matrix programs run on XLA's threads, others on the caller's
    const std::string code = is_matrix ? testdata::ProductThenCall("f", kSoakExtent) : testdata::Chain({"f", "f"});
    auto executable = compiler.Compile({code}, SoakOptions(compiler));
    if (executable.ok() && number % 3 == 0) {
      auto bytes = executable->Serialize();
      if (!bytes.ok()) return bytes.status().ToString();
      executable = compiler.Load(*bytes, SoakOptions(compiler));
    }
    if (!executable.ok()) return executable.status().ToString();
    const std::vector<int64_t> dims =
        is_matrix ? std::vector<int64_t>{kSoakExtent, kSoakExtent} : std::vector<int64_t>{4};
    const std::vector<float> values(is_matrix ? kSoakExtent * kSoakExtent : 4, 1);
    auto x = Buffer::FromHost(client, client->devices()[0], dims, values);
    if (!x.ok()) return x.status().ToString();
    for (int run = 0; run < 4; ++run) {
      const auto wish = std::make_shared<Wish>(Wish{static_cast<float>(8 * number + run), run % 2 == 1});
      const float expected = is_matrix ? kSoakExtent : 1 + 2 * wish->added;
      auto outputs = executable->Run({&*x}, {.context = wish});
      if (wish->fails) {
        const bool right = outputs.status().code() == StatusCode::kDataLoss &&
                           outputs.status().message().find(std::to_string(wish->added)) != std::string_view::npos;
        if (!right) return "failed otherwise: " + outputs.status().ToString();
        continue;
      }
      if (!outputs.ok()) return outputs.status().ToString();
      const auto returned = outputs->at(0).ToVector<float>();
      if (!returned.ok() || returned->front() != expected) return "wrong result";
    }
    auto loop = compiler.Compile({testdata::TapLoop("t", 3)}, SoakOptions(compiler));
    if (!loop.ok()) return loop.status().ToString();
    const std::vector<int64_t> four = {4};
    auto start = Buffer::FromHost(client, client->devices()[0], four, std::vector<float>(4, 1));
    if (!start.ok()) return start.status().ToString();
    const std::vector<const Buffer*> arguments = {&*start};
    auto execution = loop->Execute({&arguments, 1});
    // Everything is destroyed while the program may still run.
    return execution.ok() ? "" : execution.status().ToString();
  }
};

TEST_F(SoakTest, ThreadsCompileLoadRunAndDestroyWhileCallbacksFail) {
  const char* given = std::getenv("CALLOUT_SOAK_SECONDS");
  const std::chrono::duration<double> duration(given == nullptr ? 1 : std::strtod(given, nullptr));
  {
    const auto client = MakeClient();
    std::atomic<int> turns{0};
    std::mutex mutex;
    std::vector<std::string> errors;
    const auto work_until = [&](Clock::time_point end) {
      std::vector<std::thread> threads;
      for (int i = 0; i < kSoakThreads; ++i) {
        threads.emplace_back([&] {
          do {
            const std::string error = Turn(client, ++turns);
            if (error.empty()) continue;
            const std::lock_guard lock(mutex);
            errors.push_back(error);
            return;
          } while (Clock::now() < end);
        });
      }
      for (std::thread& thread : threads) thread.join();
    };
    const auto begin = Clock::now();
    // Warms up: allocations that are kept once are now there.
    work_until(begin + std::chrono::duration_cast<Clock::duration>(duration / 4));
    const double before = ResidentMegabytes();
    work_until(begin + std::chrono::duration_cast<Clock::duration>(duration));
    EXPECT_THAT(errors, ::testing::IsEmpty());
    EXPECT_THAT(BarrierWait(), internal::IsOk());
    const double growth = ResidentMegabytes() - before;
#ifdef CALLOUT_ADDRESS_SANITIZER
    constexpr double kMost = 600;  // the sanitizer keeps freed memory
#else
    constexpr double kMost = 100;
#endif
    EXPECT_LT(growth, kMost) << "MB, in " << turns << " turns";
    std::printf("%d turns, %.0f MB, grown by %.1f MB\n", turns.load(), before, growth);
  }
}

}  // namespace
}  // namespace callout::pjrt
