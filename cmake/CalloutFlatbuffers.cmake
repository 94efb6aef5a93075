# SPDX-License-Identifier: Apache-2.0
#   callout_flatbuffers(target schema.fbs)
# makes `target`, an interface library with the header that flatc writes for the schema.
include_guard(GLOBAL)
find_package(Flatbuffers 2.0 CONFIG QUIET NAMES Flatbuffers FlatBuffers flatbuffers)
if(NOT Flatbuffers_FOUND OR NOT TARGET flatbuffers::flatc)
  message(STATUS "FlatBuffers is not installed: fetching 2.0.8")
  include(FetchContent)
  set(FLATBUFFERS_BUILD_TESTS OFF)
  set(FLATBUFFERS_INSTALL OFF)
  FetchContent_Declare(flatbuffers SYSTEM
    URL https://github.com/google/flatbuffers/archive/refs/tags/v2.0.8.tar.gz
    URL_HASH SHA256=f97965a727d26386afaefff950badef2db3ab6af9afe23ed6d94bfb65f95f37e
    DOWNLOAD_EXTRACT_TIMESTAMP OFF)
  FetchContent_MakeAvailable(flatbuffers)
  if(NOT TARGET flatbuffers::flatc)
    add_executable(flatbuffers::flatc ALIAS flatc)
  endif()
  target_include_directories(flatc SYSTEM PUBLIC "${flatbuffers_SOURCE_DIR}/include")
endif()

function(callout_flatbuffers target schema)
  get_filename_component(name "${schema}" NAME_WE)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  set(header "${folder}/${name}_generated.h")
  add_custom_command(OUTPUT "${header}"
    COMMAND flatbuffers::flatc --cpp -o "${folder}" "${CMAKE_CURRENT_SOURCE_DIR}/${schema}"
    DEPENDS "${schema}" VERBATIM)
  add_custom_target(${target}_header DEPENDS "${header}")
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_header)
  target_include_directories(${target} SYSTEM INTERFACE "${folder}")
  if(flatbuffers_SOURCE_DIR)
    target_include_directories(${target} SYSTEM INTERFACE "${flatbuffers_SOURCE_DIR}/include")
  endif()
endfunction()
