#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ tests with Clang, AddressSanitizer and UndefinedBehaviorSanitizer in build/asan, and runs them.
# It also compiles the benchmarks, so that a change that breaks them fails here.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
has_clang_sanitizers asan || exit 0
scripts/system_packages.sh libbenchmark-dev:benchmark/benchmark.h
cmake --workflow --preset asan
