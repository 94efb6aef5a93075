# SPDX-License-Identifier: Apache-2.0
# Cross-builds with Debian's g++-aarch64-linux-gnu. Programs of the build run under qemu-user. Libraries beside the C and C++
# ones, and Python, come from the folder of Debian's packages for arm64 that ci/aarch64/sysroot.sh lays down.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;/usr/aarch64-linux-gnu)
# Libraries of the build machine are for another processor; its headers and programs are not.
set(callout_sysroot "${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot")
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu "${callout_sysroot}")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
