# SPDX-License-Identifier: Apache-2.0
# The functions that folders use:
#
#   callout_library(NAME core SRCS base/a.cc DEPS ... PRIVATE_DEPS ... [TESTONLY])
#   callout_test(NAME core_test SRCS base/a_test.cc DEPS core testing)
#   callout_unity(target)
#   callout_use_software_gpu(target)
#   callout_benchmark(NAME a_benchmark SRCS a_benchmark.cc DEPS core)
#
# A dependency named `x` is the target callout_x; one with `::` is taken as it stands. ctest labels each test of the target
# `x_test` or `x_y_test` with `x`: `ctest --preset dev -L core`.
include_guard(GLOBAL)
include(Packages)

function(_callout_link target visibility)
  foreach(dep IN LISTS ARGN)
    if(NOT dep MATCHES "::")
      set(dep callout_${dep})
    endif()
    target_link_libraries(${target} ${visibility} ${dep})
  endforeach()
endfunction()

# With CALLOUT_UNITY the files of a folder are compiled together, up to 24 at a time: a third of the time is for headers.
function(callout_unity target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${target}_${folder}" folder)
    math(EXPR part "${count_${folder}} + 0")
    math(EXPR count_${folder} "${part} + 1")
    math(EXPR part "${part} / 24")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${part}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CALLOUT_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

function(callout_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "TESTONLY" "NAME" "SRCS;DEPS;PRIVATE_DEPS")
  set(target callout_${arg_NAME})
  if(arg_TESTONLY AND NOT (CALLOUT_BUILD_TESTS OR CALLOUT_BUILD_BENCHMARKS OR CALLOUT_BUILD_FUZZERS))
    return()
  endif()
  add_library(${target} STATIC ${arg_SRCS})
  target_include_directories(${target} PUBLIC
    "${callout_root}/include" "${callout_build}/include" "${callout_root}/src")
  target_link_libraries(${target} PUBLIC Threads::Threads)
  _callout_link(${target} PUBLIC ${arg_DEPS})
  _callout_link(${target} PRIVATE ${arg_PRIVATE_DEPS})
  callout_set_warnings(${target})
  callout_unity(${target})
  if(NOT arg_TESTONLY)
    set_property(GLOBAL APPEND PROPERTY CALLOUT_COMPONENTS ${target})
    set(external ${arg_DEPS} ${arg_PRIVATE_DEPS})
    list(FILTER external INCLUDE REGEX "::")
    set_property(GLOBAL APPEND PROPERTY CALLOUT_EXTERNAL_DEPS ${external})
  endif()
endfunction()

function(callout_test)
  if(NOT CALLOUT_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SRCS;DEPS")
  callout_need(GTest)
  include(GoogleTest)
  add_executable(${arg_NAME} ${arg_SRCS} "${callout_root}/src/testing/time_limit.cc")
  if(CALLOUT_SANITIZE MATCHES "address")
    target_sources(${arg_NAME} PRIVATE "${callout_root}/src/testing/forked_child_leaks.cc")
    target_compile_definitions(${arg_NAME} PRIVATE CALLOUT_ADDRESS_SANITIZER)
  endif()
  _callout_link(${arg_NAME} PRIVATE ${arg_DEPS})
  target_link_libraries(${arg_NAME} PRIVATE GTest::gmock GTest::gtest_main)
  callout_set_warnings(${arg_NAME})
  callout_unity(${arg_NAME})
  # Optimising tests takes longer than running them, with sanitizers above all.
  target_compile_options(${arg_NAME} PRIVATE -O0)
  # For tests that wait for ever; time_limit.cc limits the processor time.
  string(REGEX REPLACE "_.*" "" label ${arg_NAME})
  if(NOT CALLOUT_SANITIZE)
    gtest_discover_tests(${arg_NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300
                         PROPERTIES TIMEOUT 1200 LABELS ${label})
    return()
  endif()
  # A process for each test would take five times as long: a sanitizer needs a fifth of a second to begin and to end.
  foreach(shard RANGE 3)
    add_test(NAME ${arg_NAME}_${shard} COMMAND ${arg_NAME} --gtest_brief=1)
    set_tests_properties(${arg_NAME}_${shard} PROPERTIES TIMEOUT 1200 LABELS ${label}
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

function(callout_benchmark)
  if(NOT CALLOUT_BUILD_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SRCS;DEPS")
  callout_need(benchmark)
  add_executable(${arg_NAME} ${arg_SRCS})
  _callout_link(${arg_NAME} PRIVATE ${arg_DEPS})
  target_link_libraries(${arg_NAME} PRIVATE benchmark::benchmark_main)
  callout_set_warnings(${arg_NAME})
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endfunction()

# The paths of the software GPU's driver and of an image for it are CALLOUT_SOFTWARE_GPU and CALLOUT_SOFTWARE_GPU_IMAGE
# in `target`.
function(callout_use_software_gpu target)
  target_include_directories(${target} PRIVATE "${callout_root}")
  target_compile_definitions(${target} PRIVATE
    CALLOUT_SOFTWARE_GPU="$<TARGET_FILE:callout_software_gpu_driver>"
    CALLOUT_SOFTWARE_GPU_IMAGE="$<TARGET_FILE:callout_software_gpu_image>")
  add_dependencies(${target} callout_software_gpu_driver callout_software_gpu_image)
endfunction()
