# SPDX-License-Identifier: Apache-2.0
if(TARGET benchmark::benchmark_main)
  return()
endif()
find_package(benchmark 1.7 CONFIG QUIET)
if(NOT benchmark_FOUND)
  message(STATUS "Google Benchmark is not installed: fetching 1.8.3")
  include(FetchContent)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  FetchContent_Declare(benchmark SYSTEM
    URL https://github.com/google/benchmark/archive/refs/tags/v1.8.3.tar.gz
    URL_HASH SHA256=6bc180a57d23d4d9515519f92b0c83d61b05b5bab188961f36ac7b06b0d9e9ce
    DOWNLOAD_EXTRACT_TIMESTAMP OFF)
  FetchContent_MakeAvailable(benchmark)
endif()
