# SPDX-License-Identifier: Apache-2.0
# What the command uses: CLI11, and minizip for ".npz" files where it is installed.
include_guard(GLOBAL)
include(FindOrFetch)
callout_find_or_fetch(CLI11 2.1 TARGET CLI11::CLI11 AS cli11 OFF CLI11_BUILD_TESTS CLI11_BUILD_EXAMPLES
  URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.6.1.tar.gz
  SHA256 377691f3fac2b340f12a2f79f523c780564578ba3d6eaf5238e9f35895d5ba95)

# Static where there are static ones, so that the command can be copied alone.
find_path(callout_minizip_include minizip/unzip.h)
find_library(callout_minizip_library NAMES libminizip.a minizip)
find_library(callout_zlib_library NAMES libz.a z)
if(callout_minizip_include AND callout_minizip_library AND callout_zlib_library)
  add_library(callout_minizip INTERFACE)
  target_include_directories(callout_minizip SYSTEM INTERFACE "${callout_minizip_include}")
  target_link_libraries(callout_minizip INTERFACE
    "${callout_minizip_library}" "${callout_zlib_library}")
else()
  message(STATUS "minizip is not installed: the command reads and writes no .npz files")
endif()
