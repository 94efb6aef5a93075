#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Python tests in parts, one more at a time than there are cores (JOBS), because a test mostly uses one core
# and some tests wait. The parts are tests of whole processes, tests of the fuzzer, and six parts of the others. Each
# part's output is printed when the part has ended. Usage: run_tests.sh SETS|all PYTHON LOGS [LEFT_OUT...]
# SETS: at most so many parameter sets of each test function, without the tests that are marked slow.
# LEFT_OUT: gpu_* leaves out the files test_gpu_*.py.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${1:-} =~ ^([1-9][0-9]*|all)$ ]] || { echo "run_tests.sh: expected a number of sets or all, got '${1:-}'" >&2 && exit 2; }
options=()
[[ $1 == all ]] || options=(-m 'not slow and not soak and not software_gpu' --parameter-sets "$1")
export interpreter=$2 logs=$3
shift 3
jobs=${JOBS:-$(($(nproc) + 1))}

rm -rf "$logs"
mkdir -p "$logs"
wanted() { # FILE LEFT_OUT...
  local file=$1 name
  for name in "${@:2}"; do
    # shellcheck disable=SC2053 # a pattern
    [[ ${file##*/} != test_$name.py ]] || return 1
  done
}

# Tests of whole processes take longest, so they start first.
process=process python=(python-{0..5}) count=0
for file in tests/process/test_*.py; do ! wanted "$file" "$@" || process+=" $file"; done
for file in tests/python/*/test_*.py; do
  if wanted "$file" "$@"; then python[count++ % 6]+=" $file"; fi
done
parts=("$process" "${python[@]}" "programs tests/programs")

run_part() { # "NAME FILE..." OPTION...
  local name=${1%% *} files=${1#* } status=0
  # shellcheck disable=SC2086 # a word for each file
  "$interpreter" -m pytest -o cache_dir="$PWD/$logs/cache-$name" "${@:2}" $files > "$logs/$name.log" 2>&1 < /dev/null || status=$?
  flock "$logs" cat "$logs/$name.log"
  ((status == 0))
}
export -f run_part
failed=0
printf '%s\0' "${parts[@]}" | xargs -0 -P "$jobs" -I LINE bash -c 'run_part "$@"' run_part LINE "${options[@]}" || failed=1

total() { # OUTCOME
  tail -q -n 1 "$logs"/*.log | grep -oE "[0-9]+ $1" | awk '{ n += $1 } END { print n + 0 }'
}
echo "tests: $(total passed) passed, $(total skipped) skipped, $(total failed) failed, $(total error) errors"
exit "$failed"
