#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the core, the host and the wheel for aarch64. Under qemu-user it runs C++ tests of the core's lower
# layers, programs of the host, and a third of the Python suite with jaxlib for aarch64 (ci/aarch64). Even under qemu,
# an x86-64 processor orders memory more strongly than an aarch64 one; tests/memory_model checks the effects of weak
# memory.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
python=$CALLOUT_PYTHON
tests=(core_test)

CXX=aarch64-linux-gnu-g++
if ! command -v "$CXX" > /dev/null || ! command -v qemu-aarch64-static > /dev/null; then
  CXX=g++ scripts/system_packages.sh g++-aarch64-linux-gnu:@aarch64-linux-gnu-g++ qemu-user-static:@qemu-aarch64-static
fi
for command in "$CXX" qemu-aarch64-static; do
  command -v "$command" > /dev/null || { echo "aarch64: SKIPPED: $command is not installed"; exit 0; }
done
echo "aarch64: under emulation, which does not show what weak memory allows"
failed=()

# Without this package, the host is built without minizip.
sysroot=true
ci/aarch64/sysroot.sh || sysroot=false
cmake --preset aarch64
cmake --build --preset aarch64 --target "${tests[@]}" callout callout_tool
for program in build/aarch64/bin/callout build/aarch64/libcallout.so; do
  readelf -h "$program" | grep -q AArch64 || { echo "aarch64: $program is for another processor"; exit 1; }
done
# Under qemu, calls of a native function are not short.
slow=InvokeTest.ShortCallsAreCountedAndNowAndThenTimed
echo "aarch64: left out, since emulation is too slow for it: $slow"
for test in "${tests[@]}"; do
  timeout 600 qemu-aarch64-static -L /usr/aarch64-linux-gnu "$(find build/aarch64/src -name "$test" -type f)" --gtest_brief=1 \
    --gtest_filter="-$slow" ||
    failed+=("$test")
done

# The extension and the suites need a Python of this machine with the minor version of the sysroot's.
minor() { "$@" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
if [[ $sysroot == false ]]; then
  echo "aarch64: SKIPPED: the wheel and the Python suite: there is no Python for arm64"
elif [[ $(minor "$python") != "$(minor build/aarch64-python/bin/python)" ]]; then
  echo "aarch64: SKIPPED: the wheel and the Python suite: $python is Python $(minor "$python"), Debian's for arm64" \
    "$(minor build/aarch64-python/bin/python)"
else
  ci/aarch64/packages.sh "$python"
  ci/aarch64/wheel.sh "$python"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --upgrade --only-binary=:all: \
    --platform manylinux_2_28_aarch64 --target build/aarch64-python/site build/aarch64-wheel/callout-*-"cp$(minor "$python" | tr -d .)"-*_aarch64.whl
  build/aarch64-python/bin/callout run tests/python/golden/sink_vector.bin --arg f32[3]=1,2,3 --bind sink=print \
    --expect f32[3]=11,12,13 --plugin build/aarch64-python/plugin/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so ||
    failed+=(host)
  ci/aarch64/suites.sh || failed+=(Python)
  for other in 3.11 3.12 3.13 3.14; do
    if found=$(PYTHON='' scripts/find_python.sh "$other" 2> /dev/null); then
      ci/aarch64/wheel.sh "$found" || failed+=("the wheel for Python $other")
    else
      echo "aarch64: SKIPPED: the wheel for Python $other: there is no such Python to build it with"
    fi
  done
fi
((${#failed[@]} == 0)) || { echo "aarch64: FAILED: ${failed[*]}"; exit 1; }
echo "aarch64: all that was run passes"
