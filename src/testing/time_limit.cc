// SPDX-License-Identifier: Apache-2.0
//
// The time limit of each test in processor time, which a busy machine does not shorten: whoever spins gets SIGXCPU. A
// test that waits for ever ends by the limit of ctest, which is real time and therefore generous.
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace callout::internal {
namespace {

constexpr rlim_t kSeconds = 300;  // with a sanitizer, some tests take a minute

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
