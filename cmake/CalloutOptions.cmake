# SPDX-License-Identifier: Apache-2.0
# Compiler and linker settings. Directory-wide ones also reach nanobind, so that no binary we ship
# holds a path of the build machine; warnings are for our own targets only.
include_guard(GLOBAL)
# software_gpu is a project inside of this one, and uses the same functions.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH callout_root)
set(callout_build "${PROJECT_BINARY_DIR}")
include(GNUInstallDirs)
find_package(Threads REQUIRED GLOBAL)

# Several build folders compile the same library: with ccache only the first one does.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CALLOUT_CCACHE ccache)
  if(CALLOUT_CCACHE)
    # Python sets LC_CTYPE for what it starts, so that only the package's build would have it.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${callout_root}" CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=locale "${CALLOUT_CCACHE}")
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_OPTIMIZE_DEPENDENCIES ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Of instrumented code the lines are enough for reports, and take half the space; where nobody debugs, they compile in four
# fifths of the time.
if(CALLOUT_SANITIZE OR DEFINED ENV{CI})
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -D_GLIBCXX_ASSERTIONS")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -D_GLIBCXX_ASSERTIONS")
endif()
if(SKBUILD)
  set(CMAKE_INSTALL_LIBDIR lib)
endif()

# The last matching map wins, so the inner directory comes last.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
add_compile_options("-ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/")
# ccache may make paths relative to the folder where it compiles.
cmake_path(RELATIVE_PATH PROJECT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_BINARY_DIR}" OUTPUT_VARIABLE relative_source)
add_compile_options("-ffile-prefix-map=${relative_source}/=")

if(CALLOUT_SANITIZE)
  add_compile_options(-fsanitize=${CALLOUT_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CALLOUT_SANITIZE})
endif()

function(callout_set_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wnon-virtual-dtor -Wundef
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    $<$<BOOL:${CALLOUT_WERROR}>:-Werror>)
  if(CALLOUT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With its instrumentation it fires inside the standard library.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
endfunction()
