#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles and links libcallout (core, sinks and CUDA by dlopen) for macOS on arm64. zig (PyPI's ziglang) has the
# compiler, the C++ library and the system's declarations. No program runs, because this needs a Mac.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
root=$PWD/build/zig
wanted="$(.venv/bin/python --version) $(grep '^ziglang==' requirements/constraints.txt)"
if [[ $(cat "$root/made-of" 2> /dev/null) != "$wanted" ]]; then
  .venv/bin/python -m venv --clear "$root"
  scripts/install_packages.sh "$root/bin/python" -c requirements/constraints.txt ziglang
  echo "$wanted" > "$root/made-of"
fi
CALLOUT_ZIG=$("$root/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
export CALLOUT_ZIG ZIG_GLOBAL_CACHE_DIR=$root/cache ZIG_LOCAL_CACHE_DIR=$root/cache

cmake --preset macos
cmake --build --preset macos
library=$(readlink -f build/macos/libcallout.dylib)
# The first four bytes mark a Mach-O file for 64 bits, the next four a file for arm64 processors.
[[ $(od -An -tx1 -N8 "$library" | tr -d ' ') == cffaedfe0c000001 ]] ||
  { echo "macos: $library is for another system" && exit 1; }
echo "macos: compiled and linked: $library. Nothing has been run on a Mac."
