#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of the CPU plugin that a build folder uses. Usage: plugin_path.sh BUILD_DIR
set -euo pipefail
sed -n 's/^callout_pjrt_plugin:.*=//p' "$1/CMakeCache.txt"
