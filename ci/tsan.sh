#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ tests with ThreadSanitizer in build/tsan, and runs them.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
# ThreadSanitizer of GCC 12 does not work with the address randomisation of newer kernels.
fixed=()
if setarch "$(uname -m)" -R true 2> /dev/null; then fixed=(setarch "$(uname -m)" -R); fi
"${fixed[@]}" cmake --workflow --preset tsan
