# SPDX-License-Identifier: Apache-2.0
# The target callout_xla_ffi: include path of the XLA FFI C header, taken from one pinned jaxlib
# wheel and never from the environment (a handler built with newer headers is refused by older
# runtimes). CALLOUT_XLA_INCLUDE_DIR or the environment's CALLOUT_DEPS_CACHE avoid the download.
include_guard(GLOBAL)
include(FetchWheel)

set(callout_xla_jaxlib_version 0.10.2)
set(callout_xla_c_api_sha256 85fc385c2d3a6b539a05b9cf4c3535aa24b4b41040f9e111c1f2c11b0e2fa539)
set(CALLOUT_XLA_INCLUDE_DIR "" CACHE PATH "Directory that holds xla/ffi/api/c_api.h")

set(include_dir "${CALLOUT_XLA_INCLUDE_DIR}")
if(NOT include_dir)
  callout_fetch_wheel(xla-ffi "${callout_xla_jaxlib_version}" folder)
  set(include_dir "${folder}/include")
endif()

set(header "${include_dir}/xla/ffi/api/c_api.h")
if(NOT EXISTS "${header}")
  message(FATAL_ERROR
    "callout: ${header} does not exist. It is a header of jaxlib ${callout_xla_jaxlib_version}; "
    "without network access, unpack them elsewhere and set CALLOUT_XLA_INCLUDE_DIR to the directory "
    "that holds xla/ffi/api/c_api.h.")
endif()
file(SHA256 "${header}" found_sha256)
if(NOT found_sha256 STREQUAL callout_xla_c_api_sha256)
  message(FATAL_ERROR
    "callout: ${header} is not the one of jaxlib ${callout_xla_jaxlib_version}: expected SHA-256 "
    "${callout_xla_c_api_sha256}, got ${found_sha256}")
endif()

add_library(callout_xla_ffi INTERFACE)
target_include_directories(callout_xla_ffi SYSTEM INTERFACE "${include_dir}")
