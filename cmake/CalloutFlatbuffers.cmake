# SPDX-License-Identifier: Apache-2.0
#   callout_flatbuffers(target schema.fbs)
# makes `target`, an interface library with the header that flatc writes for the schema.
include_guard(GLOBAL)
include(Packages)
callout_need(Flatbuffers)
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
