#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs Callout with JAX's unmodified CUDA plugin on the software GPU: gpu-check's rows, Python's suites, the host without
# Python, XLA's own programs. Usage: gpu_test.sh [MINOR:JAX:CUDA...]; environments and logs are kept in build/gpu-test.
# GPU_TEST in the environment: quick (the newest JAX, calls and taps, three parameter sets of each test; default), or full
# (every plugin, every suite).
set -euo pipefail
cd "$(dirname "$0")/.."
scope=${GPU_TEST:-quick}
[[ $scope == quick || $scope == full ]] || { echo "GPU_TEST: expected quick or full, got $scope" >&2 && exit 2; }
cells=("$@")
if ((!${#cells[@]})); then
  cells=(3.12:0.12.0.1:13)
  [[ $scope == quick ]] || cells+=(3.12:0.12.0.1:12 3.12:0.11.2:13 3.11:0.10.2:13)
fi
calls=(test_pure_callback.py test_io_callback.py test_debug.py test_results.py test_errors.py)
taps=(test_tap.py test_tap_errors.py test_tap_sending.py test_ordered.py test_print.py test_watch.py test_held_results.py
  test_chunked_taps.py)
for file in "${calls[@]}" "${taps[@]}"; do
  compgen -G "tests/python/*/$file" > /dev/null || { echo "gpu_test.sh: there is no tests/python/*/$file" >&2 && exit 2; }
done
# All other suites. Tests that do not run on CUDA have a mark with the reason, see tests/python/support/platforms.py.
others=()
for file in tests/python/*/test_*.py; do
  [[ " ${calls[*]} ${taps[*]} " == *" ${file##*/} "* ]] || others+=("${file##*/}")
done

root=build/gpu-test
mkdir -p "$root"
results=$root/results
: > "$results"
export CALLOUT_CPP_BUILD=$PWD/build/gpu CALLOUT_HOST_COMMAND=$PWD/build/gpu/bin/callout

echo "== build"
{ cmake --preset gpu && cmake --build --preset gpu; } > "$root/build.log" || { tail -n 100 "$root/build.log" && exit 1; }
mapfile -t minors < <(printf '%s\n' "${cells[@]%%:*}" | sort -u)
ci/build_wheels.sh "${minors[@]}"

# XLA's libdevice is not beside the plugin, because the plugin would prefer NVIDIA's libraries there to the software
# GPU's.
toolkit() { # PYTHON
  if ! cmp -s requirements/gpu-test-toolkit.txt "$root/toolkit/made-of"; then
    rm -rf "$root/toolkit"
    "$1" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
      --target "$root/toolkit" -r requirements/gpu-test-toolkit.txt
    cp requirements/gpu-test-toolkit.txt "$root/toolkit/made-of"
  fi
  export CALLOUT_SOFTWARE_GPU_TOOLKIT=$PWD/$root/toolkit/nvidia/cu13
}

# The jax under test replaces the pinned one.
grep -vE '^jax(lib)?==' requirements/constraints.txt > "$root/constraints.txt"
prepare() { # PYTHON VENV JAX PLUGINS WHEEL
  local wanted
  wanted="$1 $3 $(cat "$4" "$root/constraints.txt" | sha256sum)"
  if [[ $(cat "$2/made-of" 2> /dev/null) != "$wanted" ]]; then
    "$1" -m venv --clear "$2"
    scripts/install_packages.sh "$PWD/$2/bin/python" -c "$root/constraints.txt" "jax==$3" "jaxlib==$3" \
      numpy ml_dtypes tqdm flatbuffers pytest hypothesis cloudpickle numba numba-cuda numba-cuda-mlir autograd ipywidgets \
      pandas pillow prometheus_client pyarrow polars duckdb tensorboard tensorstore zarr
    scripts/install_packages.sh "$PWD/$2/bin/python" --no-deps --only-binary=:all: --require-hashes -r "$4"
    echo "$wanted" > "$2/made-of"
  fi
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$5"
}

# A part of a cell prints the end of its output, or all of it if it fails. No devices: the command runs without the
# plugin.
run() { # NAME DEVICES COMMAND...
  local log=$root/$cell_name-$1.log status=0 start=$SECONDS summary runner=(software_gpu/run --devices "$2")
  (($2)) || runner=() label='the package of .venv'
  "${runner[@]}" "${@:3}" > "$log" 2>&1 < /dev/null || status=$?
  summary=$(grep -E '^(=+ .*(passed|failed|error|no tests ran).* =+|gpu-check: .*|programs: [0-9]+ from .*)$' "$log" | tail -n 1 | sed -E 's/^=+ //; s/ =+$//')
  {
    if ((status)); then
      tail -n 150 "$log"
    else
      grep -E '^(SKIPPED|software GPU: JAX|xla_cuda_plugin|\| .* NOT RUN )' "$log" || true
    fi
    echo "gpu: $label, $1, $2 device(s): ${summary:-exit code $status, no summary} ($((SECONDS - start)) s)" | tee -a "$results"
    ((!status)) || echo "gpu: $label, $1: exit code $status, see $log" | tee -a "$results"
  } > "$log.summary"
  flock "$root" cat "$log.summary"
  return "$status"
}
export -f run
export root results cell_name label

parts=() cell_name='' label=''
part() { parts+=("$*"); } # NAME DEVICES COMMAND...
pytest="python -m pytest -p no:cacheprovider -o filterwarnings=" # versions are not all pinned: warnings are no errors
sets=
[[ $scope == full ]] || sets='--parameter-sets 3'
suite() { # NAME DEVICES FILES...
  local files=("${@:3}")
  part "$1" "$2" env CALLOUT_TEST_PLATFORM=cuda "$pytest" "$sets" "${files[@]/#/tests/python/*/}"
}
# As many parts at a time as there are cores. They do not run in the background, where shells make programs ignore
# Ctrl-C, which tests need.
run_parts() {
  ((${#parts[@]})) || return 0
  # shellcheck disable=SC2016
  printf '%s\0' "${parts[@]}" | xargs -0 -P "$(nproc)" -I LINE bash -c 'run $1' run LINE
}

failed=0
echo "== tests on the driver alone"
ctest --preset gpu > "$root/cpp.log" || { cat "$root/cpp.log" && failed=1; }
echo "gpu: C++: $(grep -E 'tests passed' "$root/cpp.log")" | tee -a "$results"
mapfile -t marked < <(grep -l 'mark\.software_gpu' tests/process/test_*.py tests/python/*/test_*.py)
# The longest part starts first, and runs beside the parts of the first cell.
test_marked() { "$CALLOUT_PYTHON" -m pytest -p no:cacheprovider -m 'software_gpu and not soak' "$@"; }
export -f test_marked
part marked 0 test_marked "${marked[@]}"

# With the plugin these tests run unchanged.
export PYTEST_ADDOPTS="-m 'not soak'"
for cell in "${cells[@]}"; do
  IFS=: read -r minor jax cuda <<< "$cell"
  label="Python $minor, JAX $jax, CUDA $cuda"
  plugins=requirements/gpu-test-jax$jax-cuda$cuda.txt
  [[ -e $plugins ]] || { echo "gpu: $label: there is no $plugins" | tee -a "$results" && failed=1 && continue; }
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> /dev/null); then
    echo "gpu: $label: SKIPPED: no Python $minor" | tee -a "$results"
    continue
  fi
  cell_name=cp${minor/./}-jax$jax-cuda$cuda
  echo "== $label"
  toolkit "$python"
  prepare "$python" "$root/$cell_name" "$jax" "$plugins" "$(echo dist/callout-*-cp"${minor/./}"-manylinux*.whl)"
  export CALLOUT_SOFTWARE_GPU_PYTHON=$PWD/$root/$cell_name/bin/python
  PATH=$PWD/$root/$cell_name/bin:$PATH
  part gpu-check 1 python benchmarks/python/gpu/check.py \
    --only driver,kernels,limits,launches,recordings,numba_kernels,buffers,operands,calls,taps,costs,processes,host,manual \
    --out "$root/$cell_name-check"
  part gpu-check-on-2 2 python benchmarks/python/gpu/check.py --only two_gpus --out "$root/$cell_name-check-2"
  part handlers 2 "$pytest" software_gpu/python/test_handlers.py software_gpu/python/test_run.py \
    software_gpu/python/test_command_buffers.py
  suite calls 1 "${calls[@]}"
  suite taps 1 "${taps[@]}"
  if [[ $scope == full ]]; then
    part programs 2 "$pytest" software_gpu/python/test_programs.py
    part random-programs 2 env CALLOUT_TEST_PLATFORM=cuda python -W ignore tests/programs --seconds 300
    suite suites 1 "${others[@]}"
    # As many devices as the suites have on a CPU, so that no test is skipped for their number.
    suite calls-and-taps-on-8 8 "${calls[@]}" "${taps[@]}"
    suite suites-on-8 8 "${others[@]}"
  fi
  run_parts || failed=1
  parts=()
done
run_parts || failed=1 # what no cell took

echo "== gpu-test"
cat "$results"
exit "$failed"
