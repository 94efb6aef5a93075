#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ tests with AddressSanitizer and UndefinedBehaviorSanitizer in build/asan, and runs them.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
cmake --workflow --preset asan
