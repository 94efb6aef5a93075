#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels and tests them, installed, with every supported JAX; environments are kept in
# build/matrix. Usage: jax_matrix.sh [MINOR:JAX...]
set -euo pipefail
cd "$(dirname "$0")/.."
cells=("$@")
((${#cells[@]})) || cells=(3.11:0.10.2 3.12:0.12.0.1) # the ends; `make test` has the JAX between them
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
      -c build/matrix/constraints.txt "jax==$3" "jaxlib==$3" numpy ml_dtypes flatbuffers pytest hypothesis numba autograd
    echo "$wanted" > "$2/made-of"
  fi
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
    --force-reinstall "$4"
}

failed=0
for cell in "${cells[@]}"; do
  minor=${cell%%:*} jax=${cell#*:} tag=cp${cell%%:*}
  tag=${tag/./}
  label="Python $minor, JAX $jax"
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> /dev/null); then
    echo "$label: SKIPPED: no Python $minor" | tee -a "$results"
    continue
  fi
  wheel=$(echo dist/callout-*-"$tag"-*.whl)
  venv=build/matrix/$tag-jax$jax
  log=$venv.log
  echo "== $label: $(basename "$wheel")"
  prepare "$python" "$venv" "$jax" "$wheel"
  status=0
  "$venv/bin/python" -m pytest -p no:cacheprovider tests < /dev/null > "$log" 2>&1 || status=$?
  summary=$(grep -E '^=+ .*(passed|failed|error|no tests ran).* =+$' "$log" | tail -n 1 || true)
  if ((status)); then
    failed=1
    tail -n 200 "$log"
  else
    grep -E '^SKIPPED' "$log" || true
  fi
  echo "$label: ${summary:-exit code $status, no summary}" | tee -a "$results"
done

echo "== matrix"
cat "$results"
exit "$failed"
