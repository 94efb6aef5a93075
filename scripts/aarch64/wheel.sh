#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the wheel for aarch64 and the Python of build/aarch64-sysroot into build/aarch64-wheel, linked for
# manylinux_2_28 as the others are (build_wheels.sh), and checks its content. If no source has changed since, it stays.
# Usage: wheel.sh PYTHON  PYTHON: of the same minor version, with what pyproject.toml needs to build.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 sysroot=$PWD/build/aarch64-sysroot folder=build/aarch64-wheel
sources=(CMakeLists.txt LICENSE README.md cmake include pyproject.toml python requirements src scripts/aarch64/wheel.sh
  scripts/older_linux)
wheel=$(echo "$folder"/callout-*_aarch64.whl)
if [[ -e $wheel && -z $(find "${sources[@]}" -type f -newer "$wheel" -not -path '*/__pycache__/*' -print -quit) ]]; then
  echo "wheel aarch64: nothing has changed since it was built"
  exit 0
fi

echo "wheel aarch64: building"
tools=build/wheel-tools
scripts/wheel_tools.sh
export CXX=aarch64-linux-gnu-g++
link_flags=$(scripts/older_linux/flags.sh "$python" "$PWD/build/aarch64-older")
include=$(echo "$sysroot"/usr/include/python3.*)
settings=(
  CMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" CALLOUT_UNITY=ON
  Python_INCLUDE_DIR="$include" Python_NumPy_INCLUDE_DIR="$PWD/build/aarch64-python/site/numpy/_core/include"
  nanobind_DIR="$("$python" -m nanobind --cmake_dir)")
# Debian's pyconfig.h includes that of the processor, from beside it: behind the compiler's own headers.
flags="-idirafter $sysroot/usr/include"
rm -rf "$folder"
# By the first two, this Python says of itself what that of aarch64 would.
_PYTHON_HOST_PLATFORM=linux-aarch64 _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__aarch64-linux-gnu \
  PYTHONPATH=$PWD/build/aarch64-python/sysconfig CXXFLAGS=$flags LDFLAGS=$link_flags \
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  -C build-dir=build/aarch64-extension "${settings[@]/#/-Ccmake.define.}" --wheel-dir "$folder/linked" . < /dev/null
# Of another processor's wheels auditwheel takes no tag, but finds the one that they deserve.
PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --exclude 'libcallout.so' --plat auto \
  --wheel-dir "$folder" "$folder"/linked/callout-*.whl > "$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
"$python" scripts/check_wheel.py "$folder"/callout-*-manylinux_2_28_aarch64.whl
