#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one wheel for each Python found (default 3.11 to 3.14) into dist/, repairs its platform tag and checks its
# contents. "sdist": builds the source distribution; "pure": builds the wheel without C++ (docs/fallback.md) from it.
# Files that are newer than their sources stay. dist/SHA256SUMS has the requested files. The wheels are linked for
# manylinux_2_28, independent of this machine's glibc. A missing Python is built if build_python.sh can. Usage:
# build_wheels.sh [MINOR|sdist|pure...]
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up .venv/.stamps/cmake
wanted=("$@")
((${#wanted[@]})) || wanted=(3.11 3.12 3.13 3.14 sdist pure)
sources=(CMakeLists.txt LICENSE README.md cmake include pyproject.toml python requirements src ci/build_wheels.sh
  ci/older_linux)

tools=build/wheel-tools
ci/wheel_tools.sh

is_new() { # FILE
  [[ -e $1 && -z $(find "${sources[@]}" -type f -newer "$1" -not -path '*/__pycache__/*' -print -quit) ]] || return 1
  echo "$2: nothing has changed since it was built"
}

build_sdist() {
  is_new "$(echo dist/callout-*.tar.gz)" sdist && return
  echo "sdist: building"
  rm -f dist/callout-*.tar.gz
  "$tools/bin/python" -m build --sdist --outdir dist . > build/wheels/sdist.log 2>&1 || { cat build/wheels/sdist.log; exit 1; }
  "$tools/bin/python" ci/check_wheel.py dist/callout-*.tar.gz
}

# The source distribution is the source, which proves that it is complete.
build_pure() {
  is_new "$(echo dist/callout-*-py3-none-any.whl)" 'wheel py3-none-any' && return
  build_sdist
  echo "wheel py3-none-any: building"
  rm -f dist/callout-*-py3-none-any.whl
  CALLOUT_PURE=1 "$tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist \
    dist/callout-*.tar.gz < /dev/null
  "$tools/bin/python" ci/check_wheel.py dist/callout-*-py3-none-any.whl
}

linked_with_older() { # PYTHON COMMAND...
  local flags
  flags=$(ci/older_linux/flags.sh "$1" "$PWD/build/wheels/older")
  LDFLAGS=$flags "${@:2}"
}

files=() # of what was asked for, built now or before
mkdir -p dist build/wheels
for minor in "${wanted[@]}"; do
  if [[ $minor == sdist || $minor == pure ]]; then
    "build_$minor"
    [[ $minor == sdist ]] && files+=(dist/callout-*.tar.gz) || files+=(dist/callout-*-py3-none-any.whl)
    continue
  fi
  tag=cp${minor/./}
  if ! PYTHON='' scripts/find_python.sh "$minor" > /dev/null 2>&1; then
    echo "wheel $tag: there is no Python $minor; it is built if that is possible"
    ci/build_python.sh "$minor" > "build/wheels/$tag-python.log" 2>&1 || tail -n 1 "build/wheels/$tag-python.log"
  fi
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> "build/wheels/$tag.log"); then
    echo "wheel $tag: SKIPPED: $(paste -sd ';' "build/wheels/$tag.log")"
    continue
  fi
  wheel=$(echo dist/callout-*-"$tag"-manylinux*.whl)
  if is_new "$wheel" "wheel $tag"; then
    files+=("$wheel")
    continue
  fi
  echo "wheel $tag: building with $minor"
  # An old build folder would hold paths of a deleted build environment. The folder is as deep as those of other builds,
  # for ccache. The newest NumPy has no wheel for 3.13t.
  rm -rf "build/wheels/$tag" "build/wheel-$tag" dist/callout-*-"$tag"-manylinux*.whl
  linked_with_older "$python" \
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --only-binary numpy \
    -C build-dir="build/wheel-$tag" --wheel-dir "build/wheels/$tag" . < /dev/null
  # libcallout.so is already in the wheel, so auditwheel must not add a second copy.
  PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --exclude 'libcallout.so' \
    --plat manylinux_2_28_x86_64 --wheel-dir dist "build/wheels/$tag"/callout-*.whl > "build/wheels/$tag.log" 2>&1 ||
    { cat "build/wheels/$tag.log"; exit 1; }
  "$python" ci/check_wheel.py dist/callout-*-"$tag"-manylinux*.whl
  files+=(dist/callout-*-"$tag"-manylinux*.whl)
done
((${#files[@]})) || { echo "no wheel was built"; exit 1; }
(cd dist && sha256sum "${files[@]#dist/}" > SHA256SUMS)
