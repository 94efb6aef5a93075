# SPDX-License-Identifier: Apache-2.0
#   callout_find_or_fetch(GTest 1.12 TARGET GTest::gtest_main AS googletest URL https://... SHA256 8ad5...
#                         [NAMES other names] [OFF options])
# finds a package of at least that version, or fetches the sources of a pinned one, known to FetchContent AS that name,
# and adds them to the build with these options of theirs off. A macro: what they set is for the caller.
include_guard(GLOBAL)
include(FetchContent)

macro(callout_find_or_fetch package version)
  cmake_parse_arguments(fetch "" "TARGET;AS;URL;SHA256" "NAMES;OFF" ${ARGN})
  if(NOT TARGET ${fetch_TARGET})
    find_package(${package} ${version} CONFIG QUIET NAMES ${package} ${fetch_NAMES})
  endif()
  if(NOT TARGET ${fetch_TARGET})
    message(STATUS "${package} is not installed: fetching ${fetch_URL}")
    foreach(option IN LISTS fetch_OFF)
      set(${option} OFF)
    endforeach()
    FetchContent_Declare(${fetch_AS} SYSTEM
      URL ${fetch_URL}
      URL_HASH SHA256=${fetch_SHA256}
      DOWNLOAD_EXTRACT_TIMESTAMP OFF)
    FetchContent_MakeAvailable(${fetch_AS})
  endif()
endmacro()
