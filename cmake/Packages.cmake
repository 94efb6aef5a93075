# SPDX-License-Identifier: Apache-2.0
#   callout_need(GTest)
# finds one of the packages below, of at least the version that comes first, or fetches the sources of a pinned one, known
# to FetchContent by the name behind AS, and adds them to the build with the options behind OFF off. A macro: what packages
# set is for the caller.
include_guard(GLOBAL)
include(FetchContent)

set(callout_benchmark 1.7 TARGET benchmark::benchmark_main AS benchmark
  OFF BENCHMARK_ENABLE_TESTING BENCHMARK_ENABLE_INSTALL
  URL https://github.com/google/benchmark/archive/refs/tags/v1.8.3.tar.gz
  SHA256 6bc180a57d23d4d9515519f92b0c83d61b05b5bab188961f36ac7b06b0d9e9ce)
set(callout_CLI11 2.1 TARGET CLI11::CLI11 AS cli11 OFF CLI11_BUILD_TESTS CLI11_BUILD_EXAMPLES
  URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.6.1.tar.gz
  SHA256 377691f3fac2b340f12a2f79f523c780564578ba3d6eaf5238e9f35895d5ba95)
set(callout_Flatbuffers 2.0 TARGET flatbuffers::flatc AS flatbuffers NAMES FlatBuffers flatbuffers
  OFF FLATBUFFERS_BUILD_TESTS FLATBUFFERS_INSTALL
  URL https://github.com/google/flatbuffers/archive/refs/tags/v2.0.8.tar.gz
  SHA256 f97965a727d26386afaefff950badef2db3ab6af9afe23ed6d94bfb65f95f37e)
set(callout_GTest 1.12 TARGET GTest::gtest_main AS googletest OFF INSTALL_GTEST
  URL https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz
  SHA256 8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7)

macro(callout_need package)
  cmake_parse_arguments(need "" "TARGET;AS;URL;SHA256" "NAMES;OFF" ${callout_${package}})
  if(NOT TARGET ${need_TARGET})
    find_package(${package} ${need_UNPARSED_ARGUMENTS} CONFIG QUIET NAMES ${package} ${need_NAMES})
  endif()
  if(NOT TARGET ${need_TARGET})
    message(STATUS "${package} is not installed: fetching ${need_URL}")
    foreach(option IN LISTS need_OFF)
      set(${option} OFF)
    endforeach()
    FetchContent_Declare(${need_AS} SYSTEM
      URL ${need_URL}
      URL_HASH SHA256=${need_SHA256}
      DOWNLOAD_EXTRACT_TIMESTAMP OFF)
    FetchContent_MakeAvailable(${need_AS})
  endif()
endmacro()
