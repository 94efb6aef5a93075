// SPDX-License-Identifier: Apache-2.0
#include "core/base/core_identity.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(CoreIdentityTest, AloneIsFine) { EXPECT_THAT(CheckOnlyCore(), IsOk()); }

// This executable stands for the core; a library called libcallout.so was loaded into its process.
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
