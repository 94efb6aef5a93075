# SPDX-License-Identifier: Apache-2.0
# The target callout_cuda_headers: cuda.h and its like of one pinned wheel, for tests; nothing that is installed sees them.
# CALLOUT_CUDA_INCLUDE_DIR or the environment's CALLOUT_DEPS_CACHE avoid the download.
include_guard(GLOBAL)
include(FetchWheel)

set(callout_cuda_headers_version 13.5.37)
set(CALLOUT_CUDA_INCLUDE_DIR "" CACHE PATH "Directory that holds cuda.h and cudaTypedefs.h of CUDA ${callout_cuda_headers_version}")

set(include_dir "${CALLOUT_CUDA_INCLUDE_DIR}")
if(NOT include_dir)
  callout_fetch_wheel(cuda-headers "${callout_cuda_headers_version}" folder)
  set(include_dir "${folder}/include")
endif()
if(NOT EXISTS "${include_dir}/cudaTypedefs.h")
  message(FATAL_ERROR
    "callout: ${include_dir}/cudaTypedefs.h does not exist. It is a header of nvidia-cuda-runtime "
    "${callout_cuda_headers_version}; without network access, unpack its headers elsewhere and set "
    "CALLOUT_CUDA_INCLUDE_DIR to their directory, or configure with CALLOUT_BUILD_TESTS=OFF.")
endif()
add_library(callout_cuda_headers INTERFACE)
target_include_directories(callout_cuda_headers SYSTEM INTERFACE "${include_dir}")
set(callout_cuda_include_dir "${include_dir}")
