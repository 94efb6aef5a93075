# SPDX-License-Identifier: Apache-2.0
# libcallout.so from the objects of all components, its public headers and its CMake package.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY CALLOUT_COMPONENTS)
get_property(external GLOBAL PROPERTY CALLOUT_EXTERNAL_DEPS)
list(REMOVE_DUPLICATES external)
# A wheel has the core alone, also where its build folder makes the command for hosts, too.
set(with_host "${CALLOUT_BUILD_PJRT}")
if(SKBUILD)
  set(with_host OFF)
  list(REMOVE_ITEM components callout_host)
endif()

add_library(callout SHARED)
add_library(callout::core ALIAS callout)
foreach(component IN LISTS components)
  target_sources(callout PRIVATE $<TARGET_OBJECTS:${component}>)
endforeach()
# Location means public: whatever lies in include/callout is installed and verified.
file(GLOB public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/callout/*.h")
if(with_host)
  file(GLOB pjrt_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/callout/pjrt/*.h")
  list(APPEND public_headers ${pjrt_headers})
else()
  list(FILTER public_headers EXCLUDE REGEX "/c_api\\.h$")
endif()
target_sources(callout PUBLIC FILE_SET HEADERS
  BASE_DIRS "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/include"
  FILES ${public_headers} "${PROJECT_BINARY_DIR}/include/callout/version.h")
target_compile_features(callout PUBLIC cxx_std_20)
target_link_libraries(callout PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${external})

if(NOT APPLE)  # whose linker has no version scripts, and refuses undefined symbols by itself
  # Hidden visibility does not cover the instances of std templates; the version script does.
  set(version_script "${PROJECT_SOURCE_DIR}/cmake/libcallout.map")
  target_link_options(callout PRIVATE "-Wl,--version-script=${version_script}" -Wl,-z,relro,-z,now)
  set_target_properties(callout PROPERTIES LINK_DEPENDS "${version_script}")
  # With Clang a sanitizer's runtime is in the program alone, and libraries find it there.
  if(NOT (CALLOUT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    target_link_options(callout PRIVATE -Wl,--no-undefined)
  endif()
endif()
set_target_properties(callout PROPERTIES
  EXPORT_NAME core
  LINKER_LANGUAGE CXX
  VERIFY_INTERFACE_HEADER_SETS ON)
# A wheel cannot hold symbolic links, so there the file and its SONAME are both libcallout.so.
if(NOT SKBUILD)
  set_target_properties(callout PROPERTIES SOVERSION 0 VERSION ${PROJECT_VERSION})
endif()

# The host lies in the same library; the target says that it is there. Who wants one file links the
# static library instead.
set(package_targets callout)
if(with_host)
  add_library(callout_static STATIC)
  add_library(callout::static ALIAS callout_static)
  foreach(component IN LISTS components)
    target_sources(callout_static PRIVATE $<TARGET_OBJECTS:${component}>)
  endforeach()
  target_include_directories(callout_static INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_BINARY_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(callout_static PUBLIC cxx_std_20)
  target_link_libraries(callout_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
  # A program in C is linked by the C compiler, which does not know the libraries of C++.
  target_link_libraries(callout_static INTERFACE "$<$<LINK_LANGUAGE:C>:stdc++;m>")
  set_target_properties(callout_static PROPERTIES EXPORT_NAME static OUTPUT_NAME callout LINKER_LANGUAGE CXX)
  list(APPEND package_targets callout_static)

  add_library(callout_pjrt INTERFACE)
  add_library(callout::pjrt ALIAS callout_pjrt)
  target_link_libraries(callout_pjrt INTERFACE callout)
  set_target_properties(callout_pjrt PROPERTIES EXPORT_NAME pjrt)
  list(APPEND package_targets callout_pjrt)
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/callout")
install(TARGETS ${package_targets} EXPORT callout-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT callout-targets NAMESPACE callout:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/callout-config.cmake.in callout-config.cmake
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(callout-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/callout-config.cmake"
              "${PROJECT_BINARY_DIR}/callout-config-version.cmake"
        DESTINATION "${package_dir}")

if(NOT SKBUILD)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/callout")
  if(CALLOUT_BUILD_PJRT)
    install(CODE "message(STATUS \"callout: the CPU plugin is not installed; it is ${callout_pjrt_plugin}\")")
  endif()
endif()

# For builds without CMake: callout, and the host in one file as callout-static. The prefix may be moved.
if(NOT SKBUILD)
  string(REGEX REPLACE "[^/]+" ".." callout_pc_prefix "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  set(callout_pc_name callout)
  set(callout_pc_libs "-L\${libdir} -lcallout")
  configure_file(cmake/callout.pc.in callout.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/callout.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  if(CALLOUT_BUILD_PJRT)
    set(callout_pc_name callout-static)
    set(callout_pc_libs "\${libdir}/libcallout.a -lstdc++ -lm -ldl -lpthread")
    configure_file(cmake/callout.pc.in callout-static.pc @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/callout-static.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  endif()
endif()
