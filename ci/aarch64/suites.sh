#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a third of the Python suite, and programs of the host, under qemu-user with the wheel of wheel.sh and jaxlib's for
# aarch64. Usage: suites.sh [SUITE...]  SUITE: errors for test_errors.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
suites=(
  attributes buffer_callback buffers context debug dispatch errors fast_path_{dispatch,errors} float0
  io_callback lifetime logs_of_failing_calls ordered_effects pure_callback python_numbers refs register results
  round_trip threaded zero_copy
  barrier eager_sites eager_taps full_queue live_lanes_text ordered tap tap_errors tap_sending tapped_values trees_with_metadata
  csv print sinks sink_files statistics tensorboard
  export export_platforms golden
  command command_{checks,shapes})
(($# == 0)) || suites=("$@")
files=()
for suite in "${suites[@]}"; do
  found=$(find tests/python -name "test_$suite.py")
  [[ -n $found ]] || { echo "no suite $suite" >&2; exit 1; }
  files+=("$found")
done
all=(tests/python/*/test_*.py)
echo "aarch64: ${#files[@]} of ${#all[@]} files of tests/python"
echo "aarch64: SKIPPED: kernels and what compiles them, GPUs: neither Numba nor a GPU is emulated"
echo "aarch64: SKIPPED: the soak tests, whole processes, devices that meet: too slow under emulation"
# The command compiles each shape in a process of its own.
left_out=tests/python/host/test_command_shapes.py::test_all_shapes_are_compiled_into_a_cache
echo "aarch64: SKIPPED: $left_out: qemu-user starts no program under itself"
echo "aarch64: SKIPPED: progress bars, host_callback, checks, measuring, the package: not about the processor"

# Programs of the host.
export CALLOUT_COMMAND=$PWD/build/aarch64-python/bin/callout
export CALLOUT_PJRT_PLUGIN=$PWD/build/aarch64-python/plugin/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so
logs=build/aarch64-tests
rm -rf "$logs" && mkdir -p "$logs"
run_part() { # LOG FILE...
  # --tb=native: pytest's own tracebacks use the parser, which may fail in Debian's Python 3.11.2 while other threads
  # run.
  TEST_SECONDS=900 build/aarch64-python/bin/python -m pytest -q --tb=native -p no:cacheprovider \
    --deselect "$left_out" "${@:2}" > "$1" 2>&1 < /dev/null
}
parts=$(nproc) failed=0 pids=()
for ((part = 0; part < parts; part++)); do
  own=()
  for ((i = part; i < ${#files[@]}; i += parts)); do own+=("${files[i]}"); done
  ((${#own[@]} == 0)) && continue
  run_part "$logs/$part.log" "${own[@]}" & pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
((failed == 0)) || cat "$logs"/*.log
grep -hE '^SKIPPED' "$logs"/*.log || true
count() { # OUTCOME
  tail -q -n 1 "$logs"/*.log | grep -oE "[0-9]+ $1" | awk '{ n += $1 } END { print n + 0 }'
}
for log in "$logs"/*.log; do
  tail -n 1 "$log" | grep -qE 'passed|failed' || echo "aarch64: Python: $log ended without a summary"
done
echo "aarch64: Python: $(count passed) passed, $(count skipped) skipped, $(count failed) failed, $(count error) errors, in $SECONDS s"
exit "$failed"
