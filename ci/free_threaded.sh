#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the wheels for free-threaded Pythons. Missing Pythons are built.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up .venv/.stamps/cmake
ci/jax_matrix.sh 3.13t:0.10.2 3.14t:0.12.0.1 # the newest JAX for each, see requirements/free-threaded.txt
