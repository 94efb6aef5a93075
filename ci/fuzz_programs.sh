#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares random JAX programs with their oracles, for a minute from seed 1 on. Usage: fuzz_programs.sh [OPTIONS of
# tests/programs]  For example --seconds 600 --seed 7, or --show --seed 7 to print one program and run it.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up install .venv/.stamps/dev
"$CALLOUT_PYTHON" tests/programs --seconds 60 --seed 1 "$@"
