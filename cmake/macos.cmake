# SPDX-License-Identifier: Apache-2.0
# Cross-builds for macOS on arm64 with zig, which has the system's declarations; ci/macos.sh installs zig and names it in
# CALLOUT_ZIG.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_CXX_COMPILER "$ENV{CALLOUT_ZIG}" c++ -target aarch64-macos)
set(CMAKE_CXX_COMPILER_LAUNCHER "") # ccache does not know zig, which has a cache of its own
# Apple's tools are on Macs alone. Nothing is installed, so no path in a library is changed.
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_OSX_SYSROOT "")
