# SPDX-License-Identifier: Apache-2.0
#   callout_fetch_wheel(xla-ffi 0.10.2 result)
# sets `result` to the folder with what scripts/fetch_wheel.py unpacks of a pinned wheel, downloading
# it if it is not in the cache (CALLOUT_DEPS_CACHE of the environment, or .cache). `result`/... may
# then be missing files where the download failed: the caller checks for what it needs.
include_guard(GLOBAL)

function(callout_fetch_wheel name version result)
  set(cache_dir "$ENV{CALLOUT_DEPS_CACHE}")
  if(NOT cache_dir)
    set(cache_dir "${PROJECT_SOURCE_DIR}/.cache")
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
    COMMAND "${python}" "${PROJECT_SOURCE_DIR}/scripts/fetch_wheel.py" "${name}" "${cache_dir}")
endfunction()
