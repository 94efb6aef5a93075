# SPDX-License-Identifier: Apache-2.0
# The target callout_pjrt_c_api: include path of the PJRT C header, and callout_pjrt_plugin: the CPU
# plugin that the tests load. Both come from one pinned wheel.
include_guard(GLOBAL)
include(FetchWheel)

set(callout_pjrt_c_api_sha256 c85bb95cb1743c2a353a555b3ab35f065e5f17007c7f182ad68d23754950235c)
callout_fetch_wheel(xla-cpu-pjrt 0.0.1 folder)
set(header "${folder}/include/pjrt_c_api.h")
if(NOT EXISTS "${header}")
  message(FATAL_ERROR
    "callout: ${header} does not exist. It is in the wheel xla-cpu-pjrt 0.0.1; without network "
    "access, unpack that to ${folder} (see scripts/fetch_wheel.py) or build with "
    "-DCALLOUT_BUILD_PJRT=OFF.")
endif()
file(SHA256 "${header}" found_sha256)
if(NOT found_sha256 STREQUAL callout_pjrt_c_api_sha256)
  message(FATAL_ERROR
    "callout: ${header} is not the one of xla-cpu-pjrt 0.0.1: expected SHA-256 "
    "${callout_pjrt_c_api_sha256}, got ${found_sha256}")
endif()

add_library(callout_pjrt_c_api INTERFACE)
target_include_directories(callout_pjrt_c_api SYSTEM INTERFACE "${folder}/include")
set(callout_pjrt_plugin "${folder}/xla_cpu_pjrt.so" CACHE INTERNAL "The CPU plugin for tests")

# The CUDA plugin, which is newer and larger: tests look at its table where CI is set.
set(callout_cuda_plugin "")
if(CALLOUT_BUILD_TESTS AND NOT "$ENV{CI}" STREQUAL "")
  callout_fetch_wheel(jax-cuda13-pjrt 0.12.0.1 folder)
  if(EXISTS "${folder}/xla_cuda_plugin.so")
    set(callout_cuda_plugin "${folder}/xla_cuda_plugin.so")
  endif()
endif()
