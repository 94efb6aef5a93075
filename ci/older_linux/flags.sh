#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes stubs of manylinux_2_28's libraries, glibc 2.28 and its C++ library, into a folder, and prints the LDFLAGS to
# link with them. Usage: flags.sh PYTHON FOLDER  The compiler is CXX of the environment, or c++.
set -euo pipefail
"$1" "$(dirname "$0")/write_libraries.py" 2.28 3.4.25 1.3.11 "$2" >&2
# Before glibc 2.34, threads and dlopen are in libraries of their own.
echo "-L$2 -Wl,--exclude-libs,ALL -Wl,--push-state,--no-as-needed,-l:libdl.so.2,-l:libpthread.so.0,--pop-state"
