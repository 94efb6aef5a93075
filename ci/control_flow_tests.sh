#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests callbacks in control flow, checkpoints and derivative rules, in three minutes. Usage: control_flow_tests.sh
# PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
suites=(calls/test_control_flow calls/test_threaded calls/test_high_types calls/test_loop_invariants calls/test_pure_callback
  progress/test_progress_transformations taps/test_chunked_taps taps/test_lanes_in_rules taps/test_live_lanes taps/test_tap
  watching/test_checks watching/test_located_modules watching/test_located_rules)
suites=("${suites[@]/#/tests/python/}")
status=0
"$1" -m pytest -q -m 'not slow and not soak and not software_gpu' --parameter-sets 2 "${suites[@]/%/.py}" || status=$?
echo "tests: of control flow, exit code $status"
exit "$status"
