// SPDX-License-Identifier: Apache-2.0
//
// A fixture that fails a test which leaks a counted object: a callback, a tap site, or a plugin's handle.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "core/base/live_count.h"
#include "testing/spin.h"

namespace callout::internal {

using LiveCounts = std::array<int64_t, static_cast<size_t>(LiveKind::kKindCount)>;

inline LiveCounts ReadLiveCounts() {
  LiveCounts counts{};
  for (size_t kind = 0; kind < counts.size(); ++kind) counts[kind] = LiveCount(static_cast<LiveKind>(kind));
  return counts;
}

/// Adds the check to a fixture `Base`, such as TestWithParam.
template <typename Base>
class WithLiveCounts : public Base {
 protected:
  void SetUp() override { before_ = ReadLiveCounts(); }
  // Waits, because one of XLA's threads may announce the end of a run before it releases the program and its callbacks.
  void AwaitCallbacks() const {
    constexpr auto kKind = static_cast<size_t>(LiveKind::kCallback);
    SpinUntil([this] { return ReadLiveCounts()[kKind] == before_[kKind]; });
  }
  // Runs after the test's own variables are destroyed.
  void TearDown() override { EXPECT_EQ(ReadLiveCounts(), before_) << "left behind, in the order of LiveKind"; }

 private:
  LiveCounts before_{};
};

using LiveCountTest = WithLiveCounts<::testing::Test>;

}  // namespace callout::internal
