#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what repairs wheels into build/wheel-tools, where requirements/wheel.txt has changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/wheel-tools
if ! cmp -s requirements/wheel.txt "$tools/installed"; then
  python=$(scripts/find_python.sh 2> /dev/null)
  "$python" -m venv --clear "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements/wheel.txt
  cp requirements/wheel.txt "$tools/installed"
fi
