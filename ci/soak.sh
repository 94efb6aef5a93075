#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that load the machine for minutes, one of them again with AddressSanitizer. Usage: soak.sh [SECONDS]
# SECONDS: how long the C++ host is loaded, each time (600).
set -euo pipefail
source "$(dirname "$0")/setup.sh"
export CALLOUT_SOAK_SECONDS=${1:-600}
set_up install setup
cmake --preset gpu && cmake --build --preset gpu
"$CALLOUT_PYTHON" -m pytest -m soak -o faulthandler_timeout=3600 tests
load_host() { # PRESET
  cmake --preset "$1"
  cmake --build --preset "$1" --target host_plugin_test
  "build/$1/src/host/host_plugin_test" --gtest_filter='SoakTest.*'
}
load_host dev
if has_clang_sanitizers soak; then ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 load_host asan; fi
"$CALLOUT_PYTHON" benchmarks/python/hangs.py --rounds 100
