# SPDX-License-Identifier: Apache-2.0
# The target callout_pjrt_c_api: include path of the PJRT C header, and callout_pjrt_plugin: the CPU
# plugin that the tests load. Both come from one pinned wheel.
include_guard(GLOBAL)
include(FetchWheel)

callout_wheel_headers(callout_pjrt_c_api WHEEL xla-cpu-pjrt 0.0.1 HEADER pjrt_c_api.h
  SHA256 c85bb95cb1743c2a353a555b3ab35f065e5f17007c7f182ad68d23754950235c)
callout_fetch_wheel(xla-cpu-pjrt 0.0.1 folder)
set(CALLOUT_CPU_PLUGIN "" CACHE FILEPATH "The CPU plugin for tests and benchmarks; that of xla-cpu-pjrt if it is empty")
set(plugin "${CALLOUT_CPU_PLUGIN}")
if(NOT plugin)
  set(plugin "${folder}/xla_cpu_pjrt.so")
endif()
set(callout_pjrt_plugin "${plugin}" CACHE INTERNAL "The CPU plugin for tests")

# The CUDA plugin, which is newer and larger: tests look at its table where CI is set.
set(callout_cuda_plugin "")
if(CALLOUT_BUILD_TESTS AND NOT "$ENV{CI}" STREQUAL "")
  callout_fetch_wheel(jax-cuda13-pjrt 0.12.0.1 folder)
  if(EXISTS "${folder}/xla_cuda_plugin.so")
    set(callout_cuda_plugin "${folder}/xla_cuda_plugin.so")
  endif()
endif()

#   callout_plugin_test(NAME x_plugin_test SRCS x_test.cc DEPS executables testing)
# is callout_test for tests that load the plugins above: CALLOUT_TEST_PLUGIN and CALLOUT_CUDA_PLUGIN, which may be empty.
# ThreadSanitizer does not see how the threads of the CPU plugin wait: there they are left out.
if(CALLOUT_SANITIZE MATCHES "thread")
  message(STATUS "callout: the tests with the CPU plugin are left out: ThreadSanitizer does not see how its threads wait")
endif()
function(callout_plugin_test)
  if(NOT CALLOUT_BUILD_TESTS OR CALLOUT_SANITIZE MATCHES "thread")
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SRCS;DEPS")
  callout_test(NAME ${arg_NAME} SRCS ${arg_SRCS} DEPS ${arg_DEPS} pjrt_c_api)
  target_compile_definitions(${arg_NAME} PRIVATE
    CALLOUT_TEST_PLUGIN="${callout_pjrt_plugin}"
    CALLOUT_CUDA_PLUGIN="${callout_cuda_plugin}")
endfunction()
