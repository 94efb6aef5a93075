// SPDX-License-Identifier: Apache-2.0
#include "base/dynamic_library.h"

#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

TEST(DynamicLibraryTest, MissingFileIsNamedWithTheLoadersReason) {
  const auto library = DynamicLibrary::Open("/no/such/library.so");
  EXPECT_THAT(library, StatusIs(StatusCode::kNotFound, "cannot load shared library '/no/such/library.so': "));
  EXPECT_THAT(library, StatusIs(StatusCode::kNotFound, "No such file or directory"));
}

TEST(DynamicLibraryTest, FileThatIsNoLibraryIsRefused) {
  EXPECT_THAT(DynamicLibrary::Open("/dev/null"), StatusIs(StatusCode::kNotFound, "'/dev/null'"));
}

TEST(DynamicLibraryTest, FindsExportedSymbolsOnly) {
  const auto library = DynamicLibrary::Open("libm.so.6");
  ASSERT_THAT(library, IsOk());
  EXPECT_NE(library.value().Find("cos"), nullptr);
  EXPECT_EQ(library.value().Find("no_such_symbol"), nullptr);
  EXPECT_EQ(library.value().path(), "libm.so.6");
}

}  // namespace
}  // namespace callout::internal
