// SPDX-License-Identifier: Apache-2.0
#include "core/base/process_state.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(ProcessStateTest, ExitIsWhatItWasSetTo) {
  EXPECT_FALSE(ProcessIsExiting());
  SetProcessIsExiting(true);
  EXPECT_TRUE(ProcessIsExiting());
  SetProcessIsExiting(false);
  EXPECT_FALSE(ProcessIsExiting());
}

// Returns 1 if a child that is forked now is a forked child.
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

TEST(CoreIdentityTest, AloneIsFine) { EXPECT_THAT(CheckOnlyCore(), IsOk()); }

// This executable is the core here; a library with the name libcallout.so was loaded into its process.
TEST(CoreIdentityTest, AnotherCoreIsNamedWithItsPath) {
  void* const second = dlopen(CALLOUT_SECOND_CORE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(second, nullptr) << dlerror();
  const Status status = CheckOnlyCore();
  EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition, CALLOUT_SECOND_CORE));
  EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition, "core_test"));
  dlclose(second);
}

}  // namespace
}  // namespace callout::internal
