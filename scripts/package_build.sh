#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder where the package for the Python of CALLOUT_PYTHON was built last.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=$("$CALLOUT_PYTHON" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
builds=(build/python-"$tag"-*/)
[[ -d ${builds[0]} ]] || { echo "package_build.sh: there is no build/python-$tag-*: make install" >&2 && exit 1; }
echo "${builds[0]%/}"
