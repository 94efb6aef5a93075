#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the test files of features that can use JAX's own callbacks (docs/fallback.md). It leaves out native features:
# buffers, kernels, exported programs, attributes of custom calls, dispatch, rendezvous of devices, the host.
# Usage: by_jax_suites.sh [quick | transfers]
# quick: files that reach every part of the core in Python, in two minutes. transfers: files that run with
# CALLOUT_TEST_TRANSFERS=1, which makes programs for a CPU use the sends and receives of programs for a TPU.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=(barrier checks csv debug eager_sites eager_taps errors full_queue host_callback_print io_callback options print
  pure_callback register results sinks stats tap tap_errors watch)
[[ ${1:-} != transfers ]] || suites=(barrier checks debug exported_fallback_golden io_callback ordered pure_callback results tap)
[[ ${1:-} =~ ^(quick|transfers)$ ]] || suites+=(array_files config_and_stats context device_results devices
  eager_results error_kinds exported_fallback_golden fast_path_{dispatch,errors} float0 high_types hostile_{calls,taps} host_callback_{barrier,call,devices,flags,tap,transformations} interrupted
  lanes_in_rules lifetime live_lanes locate_nans located_{modules,rules} logs_of_failing_calls many_threads meshes
  named_devices nested_errors ordered ordered_effects profile progress progress_{bars,carried,compiled,payloads,transformations}
  python_numbers reducers refs report samplers shard_map sink_files statistics tap_sending tensorboard threaded threaded_runs
  trees_with_metadata varying)
for suite in "${suites[@]}"; do
  find tests/python -name "test_$suite.py" | grep . || { echo "no suite $suite" >&2; exit 1; }
done
