#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels, installs them, and tests them with every supported JAX; environments are kept in build/matrix.
# Usage: jax_matrix.sh [MINOR:JAX[:new-rules]...]  new-rules: with the new `checkpoint`, `custom_vjp` and `custom_jvp`,
# which JAX 0.12 has behind flags. TESTED=MINOR:JAX in the environment: a pair that was tested already. PREPARE_ONLY in
# the environment: tests nothing.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
cells=("$@")
((${#cells[@]})) || cells=(3.11:0.10.2 3.12:0.12.0.1 3.12:0.12.0.1:new-rules) # the ends
results=build/matrix/results
mkdir -p build/matrix
: > "$results"

mapfile -t minors < <(printf '%s\n' "${cells[@]%%:*}" | sort -u)
ci/build_wheels.sh "${minors[@]}"

# The jax under test replaces the pinned one, with the Flax that fits it.
grep -vE '^(jax|jaxlib|flax)==' requirements/constraints.txt > build/matrix/constraints.txt

prepare() { # PYTHON VENV JAX WHEEL
  local wanted
  wanted="$1 $3 $(cat build/matrix/constraints.txt requirements/free-threaded.txt ci/jax_matrix.sh | sha256sum)"
  if [[ $(cat "$2/made-of" 2> /dev/null) != "$wanted" ]]; then
    "$1" -m venv --clear "$2"
    local packages=(numpy ml_dtypes tqdm flatbuffers pytest hypothesis numba autograd ipywidgets pandas pillow
      cloudpickle prometheus_client pyarrow polars duckdb tensorboard tensorstore zarr h5py blackjax numpyro orbax-checkpoint
      equinox flax)
    packages+=(-c build/matrix/constraints.txt)
    [[ $2 != *t-jax* ]] || packages=(--only-binary :all: -r requirements/free-threaded.txt)
    scripts/install_packages.sh "$PWD/$2/bin/python" "jax==$3" "jaxlib==$3" "${packages[@]}"
    echo "$wanted" > "$2/made-of"
  fi
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
    --force-reinstall "$4"
}

readers=(duckdb pandas polars tensorboard tensorstore zarr) # of files; free-threaded Python has wheels of some of them
without_readers() { # VENV: prints the names of the suites that import readers which are not there
  local absent
  absent=$("$1/bin/python" -c 'import importlib.util as util, sys
print("|".join(name for name in sys.argv[1:] if util.find_spec(name) is None))' "${readers[@]}")
  [[ -n $absent ]] || return 0
  grep -lE "^ *(import|from) ($absent)\b" tests/process/test_*.py tests/python/*/test_*.py | sed -E 's|.*/test_(.*)\.py|\1|'
}

failed=0
labels=() venvs=() logs=() new_rules=()
for cell in "${cells[@]}"; do
  IFS=: read -r minor jax rules <<< "$cell"
  tag=cp${minor/./}
  label="Python $minor, JAX $jax${rules:+, $rules}"
  if [[ $cell == "${TESTED:-}" ]]; then
    echo "$label: make test has run with these; the wheel is built, and not tested again" | tee -a "$results"
    continue
  fi
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> /dev/null); then
    echo "$label: SKIPPED: no Python $minor" | tee -a "$results"
    continue
  fi
  wheel=$(echo dist/callout-*-"$tag"-manylinux*.whl)
  venv=build/matrix/$tag-jax$jax
  echo "== $label: $(basename "$wheel")"
  prepare "$python" "$venv" "$jax" "$wheel"
  labels+=("$label") venvs+=("$venv") logs+=("$venv${rules:+-$rules}.log") new_rules+=("$rules")
done

[[ -z ${PREPARE_ONLY:-} ]] || exit 0

# `make test` runs programs for GPUs on the software GPU, which takes minutes. If TESTED is set, `make test` has also
# run the tests that do not depend on JAX, and a sample of the others suffices. The nightly run does not set TESTED, and
# runs all tests.
left_out=('gpu_*' 'cuda_*' 'numba_cuda*') sets=all
[[ -z ${TESTED:-} ]] || sets=8 left_out+=(arrays_on_disk attributes benchmark_tables c_host 'command*' cpp csv delivery_threads
  examples file_crashes fork_and_threads forks hangs host_exit interrupted long_runs many_threads memory_limits native_code
  numba_content numba_kinds numpy_text older_linux pipes print prometheus pure_core report samplers 'sink*' statistics
  'tensorboard*' terminals)
for cell in "${!labels[@]}"; do
  status=0
  echo "== ${labels[$cell]}: tests"
  unread=()
  if [[ ${venvs[$cell]} == *t-jax* ]]; then
    mapfile -t unread < <(without_readers "${venvs[$cell]}")
    echo "${labels[$cell]}: left out, since what reads their files has no free-threaded wheels: ${unread[*]}"
  fi
  python=$PWD/${venvs[$cell]}/bin/python settings=()
  [[ -z ${new_rules[$cell]} ]] || settings=("${jax_new_rules[@]}")
  run=(scripts/run_tests.sh "$sets" "$python" "${logs[$cell]%.log}-tests" "${left_out[@]}" "${unread[@]}")
  [[ -z ${new_rules[$cell]} || -z ${TESTED:-} ]] || run=(ci/control_flow_tests.sh "$python")
  env "${settings[@]}" "${run[@]}" < /dev/null > "${logs[$cell]}" 2>&1 || status=$?
  if ((status)); then
    failed=1
    tail -n 200 "${logs[$cell]}"
  fi
  grep -E '^(SKIPPED|FAILED|ERROR) ' "${logs[$cell]}" || true
  summary=$(grep -E '^tests: ' "${logs[$cell]}" || true)
  echo "${labels[$cell]}: ${summary:-exit code $status, no summary}" | tee -a "$results"
done

echo "== matrix"
cat "$results"
exit "$failed"
