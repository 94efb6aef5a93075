// SPDX-License-Identifier: Apache-2.0
#include "core/base/process_state.h"

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

// 1 if a child that is forked now is a forked child.
int StatusOfChild() {
  const pid_t child = fork();
  if (child == 0) _exit(ProcessIsForkedChild() ? 1 : 0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(ProcessStateTest, OnlyTheChildOfAProcessThatWasUsedIsAForkedChild) {
  EXPECT_EQ(StatusOfChild(), 0);
  NoteProcessIsUsed();
  EXPECT_FALSE(ProcessIsForkedChild());
  EXPECT_EQ(StatusOfChild(), 1);
  EXPECT_FALSE(ProcessIsForkedChild());
}

}  // namespace
}  // namespace callout::internal
