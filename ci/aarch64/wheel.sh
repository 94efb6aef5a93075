#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the wheel for aarch64 and a Python of the minor version of PYTHON into build/aarch64-wheel, linked for
# manylinux_2_28 like the others (build_wheels.sh), and checks its contents. If no source has changed, the wheel stays.
# Usage: wheel.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 sysroot=$PWD/build/aarch64-sysroot folder=build/aarch64-wheel
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tag=cp${minor/./}
sources=(CMakeLists.txt LICENSE README.md cmake include pyproject.toml python requirements src ci/aarch64/wheel.sh
  ci/older_linux)
wheel=$(echo "$folder"/callout-*-"$tag"-*_aarch64.whl)
if [[ -e $wheel && -z $(find "${sources[@]}" -type f -newer "$wheel" -not -path '*/__pycache__/*' -print -quit) ]]; then
  echo "wheel aarch64 $tag: nothing has changed since it was built"
  exit 0
fi

builder=$folder-builders/$tag # an environment with what pyproject.toml needs to build
if [[ ! -e $builder/made-of || $(cat "$builder/made-of") != "$(sha256sum pyproject.toml)" ]]; then
  "$python" -m venv --clear "$builder"
  mapfile -t requires < <("$python" -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
  "$builder/bin/python" -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt "${requires[@]}" ninja
  sha256sum pyproject.toml > "$builder/made-of"
fi
python=$PWD/$builder/bin/python

# The configuration of a Python for aarch64: Debian's, or, for another minor version, this machine's with the other
# processor's name. The headers differ only in facts about the processor, which an extension does not use.
include=$sysroot/usr/include/python$minor sysconfig=$PWD/build/aarch64-python/sysconfig
if [[ ! -d $include ]]; then
  include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  sysconfig=$PWD/$builder/sysconfig
  mkdir -p "$sysconfig"
  ours=$("$python" -c 'import importlib, sysconfig
print(importlib.import_module(sysconfig._get_sysconfigdata_name()).__file__)')
  sed 's/x86_64/aarch64/g' "$ours" > "$sysconfig/_sysconfigdata__aarch64-linux-gnu.py"
fi

echo "wheel aarch64 $tag: building"
tools=build/wheel-tools
ci/wheel_tools.sh
export CXX=aarch64-linux-gnu-g++
link_flags=$(ci/older_linux/flags.sh "$python" "$PWD/build/aarch64-older")
settings=(
  CMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake"
  Python_INCLUDE_DIR="$include" Python_NumPy_INCLUDE_DIR="$PWD/build/aarch64-python/site/numpy/_core/include"
  nanobind_DIR="$("$python" -m nanobind --cmake_dir)")
# Debian's pyconfig.h includes the processor's file from its own folder, which is searched behind the compiler's
# headers.
flags="-idirafter $sysroot/usr/include"
rm -rf "$folder"/linked-"$tag" "$folder"/callout-*-"$tag"-*
# The first two variables make this Python report the configuration of the one for aarch64.
_PYTHON_HOST_PLATFORM=linux-aarch64 _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__aarch64-linux-gnu \
  PYTHONPATH=$sysconfig CXXFLAGS=$flags LDFLAGS=$link_flags \
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  -C build-dir="build/aarch64-extension-$tag" "${settings[@]/#/-Ccmake.define.}" --wheel-dir "$folder/linked-$tag" . < /dev/null
# auditwheel accepts no explicit tag for another processor's wheel, but computes the right one.
PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --exclude 'libcallout.so' --plat auto \
  --wheel-dir "$folder" "$folder/linked-$tag"/callout-*.whl > "$folder-$tag.log" 2>&1 || { cat "$folder-$tag.log"; exit 1; }
"$python" ci/check_wheel.py "$folder"/callout-*-"$tag"-manylinux_2_28_aarch64.whl
