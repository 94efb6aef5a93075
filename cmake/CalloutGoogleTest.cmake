# SPDX-License-Identifier: Apache-2.0
include(GoogleTest)
include(FindOrFetch)
callout_find_or_fetch(GTest 1.12 TARGET GTest::gtest_main AS googletest OFF INSTALL_GTEST
  URL https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz
  SHA256 8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7)
