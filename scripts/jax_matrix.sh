#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels and tests them, installed, with every supported JAX; environments are kept in
# build/matrix. Usage: jax_matrix.sh [MINOR:JAX...]  TESTED=MINOR:JAX in the environment: that one was tested already.
set -euo pipefail
cd "$(dirname "$0")/.."
cells=("$@")
((${#cells[@]})) || cells=(3.11:0.10.2 3.12:0.12.0.1) # the ends
results=build/matrix/results
mkdir -p build/matrix
: > "$results"

mapfile -t minors < <(printf '%s\n' "${cells[@]%%:*}" | sort -u)
scripts/build_wheels.sh "${minors[@]}"

# The jax under test takes the place of the pinned one.
grep -vE '^jax(lib)?==' requirements/constraints.txt > build/matrix/constraints.txt

prepare() { # PYTHON VENV JAX WHEEL
  local wanted="$1 $3 $(sha256sum < build/matrix/constraints.txt)"
  if [[ $(cat "$2/made-of" 2> /dev/null) != "$wanted" ]]; then
    "$1" -m venv --clear "$2"
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check \
      -c build/matrix/constraints.txt "jax==$3" "jaxlib==$3" numpy ml_dtypes tqdm flatbuffers pytest hypothesis numba autograd \
      ipywidgets matplotlib pandas pillow prometheus_client tensorboard
    echo "$wanted" > "$2/made-of"
  fi
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
    --force-reinstall "$4"
}

failed=0
labels=() venvs=() logs=()
for cell in "${cells[@]}"; do
  minor=${cell%%:*} jax=${cell#*:} tag=cp${cell%%:*}
  tag=${tag/./}
  label="Python $minor, JAX $jax"
  if [[ $cell == "${TESTED:-}" ]]; then
    echo "$label: make test has run with these; the wheel is built, and not tested again" | tee -a "$results"
    continue
  fi
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> /dev/null); then
    echo "$label: SKIPPED: no Python $minor" | tee -a "$results"
    continue
  fi
  wheel=$(echo dist/callout-*-"$tag"-*.whl)
  venv=build/matrix/$tag-jax$jax
  echo "== $label: $(basename "$wheel")"
  prepare "$python" "$venv" "$jax" "$wheel"
  rm -rf "$venv"-*.log "$venv"/pytest-*
  labels+=("$label") venvs+=("$venv") logs+=("$venv.log")
done

# Programs for GPUs run on a double of the driver, which takes minutes: `make test` does that.
run_tests() { # CELL FOLDER
  "${venvs[$1]}/bin/python" -m pytest -o cache_dir="$PWD/${venvs[$1]}/pytest-$2" --ignore-glob='*/test_gpu_*' \
    --ignore-glob='*/test_cuda_*' --ignore-glob='*/test_numba_cuda*' "tests/$2" \
    < /dev/null >> "${logs[$1]%.log}-$2.log" 2>&1
}

report() { # CELL FOLDER STATUS
  local log=${logs[$1]%.log}-$2.log summary
  summary=$(grep -E '^=+ .*(passed|failed|error|no tests ran).* =+$' "$log" || true)
  if (($3)); then
    failed=1
    tail -n 200 "$log"
  else
    grep -E '^(SKIPPED|FAILED|ERROR) ' "$log" || true
  fi
  echo "${labels[$1]}: ${summary:-exit code $3, no summary}" | tee -a "$results"
}

# Side by side: they mostly use one core. Those of whole processes come one cell after the other, since some of them time
# out; meanwhile, if there is a core for them.
pids=()
for cell in "${!labels[@]}"; do
  run_tests "$cell" python &
  pids+=($!)
done
process_tests() {
  local cell status
  for cell in "${!labels[@]}"; do
    status=0
    run_tests "$cell" process || status=$?
    report "$cell" process "$status"
  done
}
python_tests() {
  local cell status
  for cell in "${!labels[@]}"; do
    status=0
    wait "${pids[$cell]}" || status=$?
    report "$cell" python "$status"
  done
}
if (($(nproc) > ${#labels[@]})); then
  process_tests
  python_tests
else
  python_tests
  process_tests
fi

echo "== matrix"
cat "$results"
exit "$failed"
