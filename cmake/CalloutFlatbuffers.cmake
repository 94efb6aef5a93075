# SPDX-License-Identifier: Apache-2.0
#   callout_flatbuffers(target schema.fbs)
# makes `target`, an interface library with the header that flatc writes for the schema.
include_guard(GLOBAL)
include(FindOrFetch)
callout_find_or_fetch(Flatbuffers 2.0 TARGET flatbuffers::flatc AS flatbuffers NAMES FlatBuffers flatbuffers
  OFF FLATBUFFERS_BUILD_TESTS FLATBUFFERS_INSTALL
  URL https://github.com/google/flatbuffers/archive/refs/tags/v2.0.8.tar.gz
  SHA256 f97965a727d26386afaefff950badef2db3ab6af9afe23ed6d94bfb65f95f37e)
if(NOT TARGET flatbuffers::flatc)
  add_executable(flatbuffers::flatc ALIAS flatc)
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
