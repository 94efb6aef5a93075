#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Succeeds if CMake 3.25 or newer and Ninja are on PATH.
set -euo pipefail
command -v ninja > /dev/null
version=$(cmake --version 2> /dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
[[ -n $version ]]
[[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]]
