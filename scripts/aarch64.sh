#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the ground of the core for aarch64 and runs its C++ tests under qemu-user. The host, the extension and the
# Python package are not built. An x86-64 processor orders memory more strongly than an aarch64 one, also under qemu: what
# weak memory may do is checked by tests/memory_model, not here.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(base_test encoding_test frame_test callbacks_test delivery_test)

CXX=aarch64-linux-gnu-g++
if ! command -v "$CXX" > /dev/null || ! command -v qemu-aarch64-static > /dev/null; then
  CXX=g++ scripts/system_packages.sh g++-aarch64-linux-gnu:@aarch64-linux-gnu-g++ qemu-user-static:@qemu-aarch64-static
fi
for command in "$CXX" qemu-aarch64-static; do
  command -v "$command" > /dev/null || { echo "aarch64: SKIPPED: $command is not installed"; exit 0; }
done
cmake --preset aarch64
cmake --build --preset aarch64 --target "${tests[@]}"
echo "aarch64: under emulation, which does not show what weak memory allows"
# Calls of a native function are not short here.
slow=InvokeTest.ShortCallsAreCountedAndNowAndThenTimed
echo "aarch64: left out, since emulation is too slow for it: $slow"
failed=()
for test in "${tests[@]}"; do
  timeout 600 qemu-aarch64-static -L /usr/aarch64-linux-gnu "$(find build/aarch64/src -name "$test" -type f)" --gtest_brief=1 \
    --gtest_filter="-$slow" ||
    failed+=("$test")
done
((${#failed[@]} == 0)) || { echo "aarch64: FAILED: ${failed[*]}"; exit 1; }
echo "aarch64: ${tests[*]} pass"
