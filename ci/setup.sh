# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the scripts of ci/ to `source`: goes to the repository's root and puts .venv first on PATH, as the Makefile does for
# its recipes. `set_up TARGET...` has make prepare what a script needs: setup, install, or a stamp of .venv/.stamps.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
export PATH="$PWD/.venv/bin:$PATH" CALLOUT_PYTHON="$PWD/.venv/bin/python"

set_up() { make --no-print-directory "$@"; }
