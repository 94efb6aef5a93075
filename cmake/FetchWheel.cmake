# SPDX-License-Identifier: Apache-2.0
#   callout_fetch_wheel(xla-cpu-pjrt 0.0.1 result)
# sets `result` to the folder with what scripts/fetch_wheel.py unpacks of a pinned wheel, downloading
# it if it is not in the cache (CALLOUT_DEPS_CACHE of the environment, or .cache). `result`/... may
# then be missing files where the download failed: the caller checks for what it needs.
#
#   callout_wheel_headers(callout_xla_ffi WHEEL xla-ffi 0.10.2 HEADER xla/ffi/api/c_api.h
#                         [SHA256 85fc...] [SETTING CALLOUT_XLA_INCLUDE_DIR])
# makes a target with the include path of a pinned wheel's headers, never of the environment's; a user's setting avoids the
# download. <target>_include is the path.
include_guard(GLOBAL)

function(callout_fetch_wheel name version result)
  set(cache_dir "$ENV{CALLOUT_DEPS_CACHE}")
  if(NOT cache_dir)
    set(cache_dir "${callout_root}/.cache")
  endif()
  set(folder "${cache_dir}/${name}-${version}")
  set(${result} "${folder}" PARENT_SCOPE)
  if(EXISTS "${folder}")
    return()
  endif()
  set(python "$ENV{CALLOUT_PYTHON}")
  if(NOT python)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
    set(python "${Python_EXECUTABLE}")
  endif()
  execute_process(
    COMMAND "${python}" "${callout_root}/scripts/fetch_wheel.py" "${name}" "${cache_dir}")
endfunction()

function(callout_wheel_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SETTING;HEADER;SHA256" "WHEEL")
  list(JOIN arg_WHEEL " " wheel)
  set(include_dir "")
  set(elsewhere "")
  if(arg_SETTING)
    set(${arg_SETTING} "" CACHE PATH "Directory that holds ${arg_HEADER} of ${wheel}")
    set(include_dir "${${arg_SETTING}}")
    set(elsewhere ", or set ${arg_SETTING} to the directory that holds ${arg_HEADER}")
  endif()
  if(NOT include_dir)
    callout_fetch_wheel(${arg_WHEEL} folder)
    set(include_dir "${folder}/include")
  endif()
  set(header "${include_dir}/${arg_HEADER}")
  if(NOT EXISTS "${header}")
    message(FATAL_ERROR
      "callout: ${header} does not exist. It is a header of the wheel ${wheel}. Without network access, copy "
      "there what scripts/fetch_wheel.py unpacks elsewhere${elsewhere}.")
  endif()
  file(SHA256 "${header}" found)
  if(arg_SHA256 AND NOT found STREQUAL arg_SHA256)
    message(FATAL_ERROR
      "callout: ${header} is not the one of ${wheel}: expected SHA-256 ${arg_SHA256}, got ${found}")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE "${include_dir}")
  set(${target}_include "${include_dir}" PARENT_SCOPE)
endfunction()
