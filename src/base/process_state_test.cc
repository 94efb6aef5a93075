// SPDX-License-Identifier: Apache-2.0
#include "base/process_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace callout::internal {
namespace {

TEST(ProcessStateTest, ExitIsWhatItWasSetTo) {
  EXPECT_FALSE(ProcessIsExiting());
  SetProcessIsExiting(true);
  EXPECT_TRUE(ProcessIsExiting());
  SetProcessIsExiting(false);
  EXPECT_FALSE(ProcessIsExiting());
}

TEST(ProcessStateTest, OnlyTheChildOfAForkIsAForkedChild) {
  EXPECT_FALSE(ProcessIsForkedChild());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ProcessIsForkedChild() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(ProcessIsForkedChild());
}

}  // namespace
}  // namespace callout::internal
