// SPDX-License-Identifier: Apache-2.0
//
// A fixture that fails a test which leaves something behind that is counted: callbacks, tap sites, handles of plugins.
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

/// Also for fixtures that derive from TestWithParam: `Base` is what they would otherwise derive from.
template <typename Base>
class WithLiveCounts : public Base {
 protected:
  void SetUp() override { before_ = ReadLiveCounts(); }
  // A thread of XLA that has just said that a run is over has yet to let go of the program, and so of its callbacks.
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
