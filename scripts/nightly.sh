#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What takes hours: long loads, long fuzzing, every supported JAX. Usage: nightly.sh SECONDS MINOR:JAX... (oldest first)
# SEED in the environment: that of the fuzzers, the day by default. All parts run, also if one fails.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift
seed=${SEED:-$(date +%Y%m%d)}
logs=build/nightly
mkdir -p "$logs"

begin=$SECONDS failed=()
part() { # NAME COMMAND...
  local start=$SECONDS
  echo "::: $1"
  if "${@:2}" 2>&1 | tee "$logs/$1.log"; then
    echo "::: $1: ok, $((SECONDS - start)) s"
  else
    echo "::: $1: FAILED, $((SECONDS - start)) s, see $logs/$1.log"
    failed+=("$1")
  fi
}

found=$(scripts/by_jax_suites.sh) # its status counts, as that of <(...) does not
mapfile -t by_jax <<< "$found"

memory_model() { # a hundred times what `make test` samples
  cmake --preset dev && cmake --build --preset dev --target memory_model && build/dev/tests/memory_model/memory_model 100
}

progress_payloads() { # two minutes
  make install &&
    CALLOUT_FUZZ_SEED=$seed CALLOUT_FUZZ_ROUNDS=300000 .venv/bin/python -m pytest -q tests/python/progress/test_progress_payloads.py
}

prometheus() { # scrapes an example
  scripts/system_packages.sh prometheus:@prometheus
  make install && .venv/bin/python -m pytest -q tests/python/package/test_prometheus.py
}

echo "::: seed $seed"
part prometheus prometheus
part memory-model memory_model
part aarch64 make aarch64
part soak make soak
part fetch-content scripts/check_fetch_content.sh build/dev
part fuzz env FUZZ_SEED="$seed" FUZZ_SECONDS="$seconds" make fuzz
part progress-payloads progress_payloads
part gpu-test env GPU_TEST=full make gpu-test
part tpu-check make tpu-check
part matrix scripts/jax_matrix.sh "$@"
part free-threaded make free-threaded
for cell in "$1" "${@: -1}"; do # the ends; the matrix has made their environments
  tag=cp${cell%%:*} jax=${cell#*:}
  part "fallback-$jax" env CALLOUT_FALLBACK=always "build/matrix/${tag/./}-jax$jax/bin/python" -m pytest -q "${by_jax[@]}"
  part "programs-$jax" "build/matrix/${tag/./}-jax$jax/bin/python" tests/programs --seconds "$((seconds / 2))" --seed "$seed"
done

part pure scripts/pure_wheel.sh full "$1" "${@: -1}"

if ((${#failed[@]})); then
  echo "::: FAILED: ${failed[*]}"
  exit 1
fi
echo "::: all parts passed in $((SECONDS - begin)) s"
