#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the tools that repair wheels into build/wheel-tools, if requirements/wheel.txt has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/wheel-tools
if ! cmp -s requirements/wheel.txt "$tools/installed"; then
  python=$(scripts/find_python.sh 2> /dev/null)
  "$python" -m venv --clear "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements/wheel.txt
  cp requirements/wheel.txt "$tools/installed"
fi
