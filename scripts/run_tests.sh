#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Python tests in parts, as many at a time as there are cores (JOBS), since a test mostly uses one: those of whole
# processes, those of the fuzzer, and four parts of the others. Each part's output comes when it has ended. Usage:
# run_tests.sh PYTHON LOGS [OPTION OF PYTEST...]
set -euo pipefail
cd "$(dirname "$0")/.."
export python=$1 logs=$2
shift 2
jobs=${JOBS:-$(nproc)}

rm -rf "$logs"
mkdir -p "$logs"
# What whole processes do takes longest: it comes first.
parts=("process tests/process")
files=(tests/python/test_*.py)
for part in 0 1 2 3; do
  line=python-$part
  for ((i = part; i < ${#files[@]}; i += 4)); do line+=" ${files[i]}"; done
  parts+=("$line")
done
parts+=("programs tests/programs")

run_part() { # "NAME FILE..." [OPTION OF PYTEST...]
  local line=$1 name=${1%% *} status=0
  shift
  # shellcheck disable=SC2086 - a word for each file
  "$python" -m pytest -o cache_dir="$PWD/$logs/cache-$name" "$@" ${line#* } > "$logs/$name.log" 2>&1 < /dev/null || status=$?
  flock "$logs" cat "$logs/$name.log"
  ((status == 0 || status == 5)) # 5: all of its files are left out
}
export -f run_part
failed=0
printf '%s\0' "${parts[@]}" | xargs -0 -P "$jobs" -I LINE bash -c 'run_part "$@"' run_part LINE "$@" || failed=1

total() { # OUTCOME
  tail -q -n 1 "$logs"/*.log | grep -oE "[0-9]+ $1" | awk '{ n += $1 } END { print n + 0 }'
}
echo "tests: $(total passed) passed, $(total skipped) skipped, $(total failed) failed, $(total error) errors"
exit "$failed"
