#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one wheel for each Python found (default 3.12 and 3.11) into dist/, repairs its platform tag
# and checks its content; a wheel that is newer than what it is made of stays. Usage: build_wheels.sh [MINOR...]
set -euo pipefail
cd "$(dirname "$0")/.."
minors=("$@")
((${#minors[@]})) || minors=(3.12 3.11)

tools=build/wheel-tools
if ! cmp -s requirements/wheel.txt "$tools/installed"; then
  python=$(scripts/find_python.sh 2> /dev/null)
  "$python" -m venv --clear "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements/wheel.txt
  cp requirements/wheel.txt "$tools/installed"
fi

built=0
mkdir -p dist build/wheels
for minor in "${minors[@]}"; do
  tag=cp${minor/./}
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> "build/wheels/$tag.log"); then
    echo "wheel $tag: SKIPPED: $(paste -sd ';' "build/wheels/$tag.log")"
    continue
  fi
  wheel=$(echo dist/callout-*-"$tag"-*.whl)
  if [[ -e $wheel && -z $(find CMakeLists.txt LICENSE README.md cmake include pyproject.toml python requirements src scripts/build_wheels.sh \
    -type f -newer "$wheel" -not -path '*/__pycache__/*' -print -quit) ]]; then
    echo "wheel $tag: nothing has changed since it was built"
    built=$((built + 1))
    continue
  fi
  echo "wheel $tag: building with $minor"
  # A build folder that is left from before holds paths of a build environment that was deleted. It is as deep as those of
  # other builds, for ccache.
  rm -rf "build/wheels/$tag" "build/wheel-$tag" dist/callout-*-"$tag"-*.whl
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps -C build-dir="build/wheel-$tag" \
    --wheel-dir "build/wheels/$tag" . < /dev/null
  # libcallout.so is ours and already in the wheel: no second copy may be grafted in.
  PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --exclude 'libcallout.so' \
    --wheel-dir dist "build/wheels/$tag"/callout-*.whl > "build/wheels/$tag.log" 2>&1 ||
    { cat "build/wheels/$tag.log"; exit 1; }
  "$python" scripts/check_wheel.py dist/callout-*-"$tag"-*.whl
  built=$((built + 1))
done
((built)) || { echo "no wheel was built"; exit 1; }
