#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the checks that take hours: long loads, long fuzzing, every supported JAX. Usage: nightly.sh [SECONDS
# [MINOR:JAX...]]
# SECONDS: how long the fuzzers of bytes run (14400); random programs run for half of that on the first and on the last
# MINOR:JAX. In the environment, SEED is the fuzzers' seed (the day of the first start), and PARTS names the only parts to
# run. All parts run, also if one fails; started again on the same commit, those that passed do not run again.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
source ci/parts.sh
seconds=${1:-14400} cells=("${@:2}")
((${#cells[@]})) || cells=(3.11:0.10.2 3.13:0.11.2 3.14:0.12.0.1 3.12:0.12.0.1:new-rules 3.12:0.12.0.1)
logs=build/nightly
mkdir -p "$logs"

changed=$(git status --porcelain) # nothing is known of what is not committed
key="$(git rev-parse HEAD) $seconds ${SEED:-} ${cells[*]} ${changed:+$(date +%s.%N)}"
[[ $(cat "$logs/key" 2> /dev/null) == "$key" ]] || date +%Y%m%d > "$logs/day"
seed=${SEED:-$(cat "$logs/day")}
begin_parts "$logs" "$key"

found=$(ci/by_jax_suites.sh) # its status counts, as that of <(...) does not
mapfile -t by_jax <<< "$found"

memory_model() { # a hundred times what `make test` samples
  set_up setup && cmake --preset dev && cmake --build --preset dev --target memory_model &&
    build/dev/tests/memory_model/memory_model 100
}

every_test() { # `make test` and the matrix leave some out
  set_up install .venv/.stamps/dev && scripts/run_tests.sh all .venv/bin/python build/every-test
}

fetch_content() { # with the plugin that the configured build has
  set_up install setup && cmake --preset dev && ci/check_fetch_content.sh build/dev
}

progress_payloads() { # two minutes
  set_up install .venv/.stamps/dev &&
    CALLOUT_FUZZ_SEED=$seed CALLOUT_FUZZ_ROUNDS=300000 .venv/bin/python -m pytest -q tests/python/progress/test_progress_payloads.py
}

prometheus() { # scrapes an example
  scripts/system_packages.sh prometheus:@prometheus
  set_up install .venv/.stamps/dev && .venv/bin/python -m pytest -q tests/python/package/test_prometheus.py
}

transfers() { # programs for a CPU by the sends and receives of those for a TPU
  local suites
  suites=$(ci/by_jax_suites.sh transfers) && mapfile -t suites <<< "$suites" && set_up install .venv/.stamps/dev &&
    CALLOUT_FALLBACK=always CALLOUT_TEST_TRANSFERS=1 .venv/bin/python -m pytest -q "${suites[@]}"
}

prepared_python() { # MINOR:JAX: prints the Python of the matrix with this commit's wheel
  local tag=cp${1%%:*}
  PREPARE_ONLY=1 ci/jax_matrix.sh "$1" >&2 || return
  echo "build/matrix/${tag/./}-jax${1#*:}/bin/python"
}

fallback() { # MINOR:JAX
  local python
  python=$(prepared_python "$1") && CALLOUT_FALLBACK=always "$python" -m pytest -q "${by_jax[@]}"
}

programs() { # MINOR:JAX [SETTING=VALUE...]
  local python
  python=$(prepared_python "$1") && env "${@:2}" "$python" tests/programs --seconds "$((seconds / 2))" --seed "$seed"
}

sdist() { # the source distribution has all that the wheel takes
  local wheels=$logs/sdist
  rm -rf "$wheels"
  ci/build_wheels.sh sdist &&
    build/wheel-tools/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$wheels" \
      dist/callout-*.tar.gz < /dev/null &&
    build/wheel-tools/bin/python ci/check_wheel.py "$wheels"/callout-*.whl
}

echo "::: seed $seed"
part prometheus prometheus
part memory-model memory_model
part every-test every_test
part sdist sdist
part aarch64 ci/aarch64.sh
part macos ci/macos.sh
part soak ci/soak.sh
part other-plugins ci/other_plugins.sh
part fetch-content fetch_content
part fuzz env FUZZ_SEED="$seed" FUZZ_SECONDS="$seconds" ci/fuzz.sh
part progress-payloads progress_payloads
part gpu-test env GPU_TEST=full make gpu-test
part tpu-check ci/tpu_check.sh
part transfers transfers
part matrix ci/jax_matrix.sh "${cells[@]}"
part free-threaded ci/free_threaded.sh
part free-threaded-tsan ci/free_threaded_tsan.sh
for cell in "${cells[0]}" "${cells[-1]}"; do # the ends
  part "fallback-${cell#*:}" fallback "$cell"
  part "programs-${cell#*:}" programs "$cell"
done
part programs-new-rules programs "${cells[-1]}" "${jax_new_rules[@]}"

part pure ci/pure_wheel.sh full "${cells[0]}" "${cells[-1]}"

end_parts
