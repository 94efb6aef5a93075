# SPDX-License-Identifier: Apache-2.0
include(GoogleTest)
if(TARGET GTest::gtest_main)
  return()
endif()
find_package(GTest 1.12 CONFIG QUIET)
if(NOT GTest_FOUND)
  message(STATUS "GoogleTest is not installed: fetching 1.14.0")
  include(FetchContent)
  set(INSTALL_GTEST OFF)
  FetchContent_Declare(googletest SYSTEM
    URL https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz
    URL_HASH SHA256=8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7
    DOWNLOAD_EXTRACT_TIMESTAMP OFF)
  FetchContent_MakeAvailable(googletest)
endif()
