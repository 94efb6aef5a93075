// SPDX-License-Identifier: Apache-2.0
#include "ffi/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ffi/handlers.h"

namespace callout::internal {
namespace {

TEST(TargetsTest, NamesAreFrozen) {
  std::vector<std::string> names;
  for (const Target& target : Targets()) names.push_back(std::string(target.name) + " " + target.platform);
  EXPECT_THAT(names, ::testing::ElementsAre("callout.v1.buffer cpu", "callout.v1.call cpu", "callout.v1.check cpu",
                                            "callout.v1.tap cpu"));
}

TEST(TargetsTest, HandlersAreThoseOfTheName) {
  ASSERT_EQ(Targets().size(), 4U);
  for (size_t i : {0U, 1U}) {
    EXPECT_EQ(Targets()[i].instantiate, reinterpret_cast<void*>(&callout_v1_call_instantiate));
    EXPECT_EQ(Targets()[i].execute, reinterpret_cast<void*>(&callout_v1_call_execute));
  }
  EXPECT_EQ(Targets()[2].instantiate, nullptr) << "it has no state";
  EXPECT_EQ(Targets()[2].execute, reinterpret_cast<void*>(&callout_v1_check_execute));
  EXPECT_EQ(Targets()[3].instantiate, reinterpret_cast<void*>(&callout_v1_tap_instantiate));
  EXPECT_EQ(Targets()[3].execute, reinterpret_cast<void*>(&callout_v1_tap_execute));
}

}  // namespace
}  // namespace callout::internal
