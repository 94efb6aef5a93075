// SPDX-License-Identifier: Apache-2.0
//
// Limits the processor time of each test, which a busy machine does not affect: a test that spins gets SIGXCPU. A test
// that waits for ever is ended by ctest's limit, which is generous, because it is in real time.
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace callout::internal {
namespace {

constexpr rlim_t kSeconds = 300;  // Some tests take a minute with a sanitizer.

class TimeLimit final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override {
    rusage used{};
    rlimit limit{};
    if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
    limit.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + kSeconds;
    setrlimit(RLIMIT_CPU, &limit);
  }
};

[[maybe_unused]] const bool g_is_added = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit);
  return true;
}();

}  // namespace
}  // namespace callout::internal
