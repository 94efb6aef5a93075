#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel without C++, and checks for which systems pip chooses it. Then the script installs the wheel beside
# one version of JAX or several, and tests it; the environments stay in build/pure. The script runs the suites of
# features that can use JAX's callbacks, except those in `left_out`, whose features this wheel lacks.
#
# Usage: pure_wheel.sh [full] [MINOR:JAX...]
# MINOR is a version of Python such as 3.11. By default the script runs the quick suites, with at most three parameter
# sets of each test. With `full` it runs more suites, with all parameter sets.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
size=quick sets='--parameter-sets 3'
[[ ${1:-} != full ]] || { size=full sets=; shift; }
cells=("$@")
((${#cells[@]})) || cells=(3.11:0.10.2)
# Suites of features that only the C++ core has (docs/fallback.md), with the reasons. tests/python/support/core_only.py
# lists single tests.
declare -A left_out
leave_out() { # REASON SUITE...
  local suite
  for suite in "${@:2}"; do left_out[$suite]=$1; done
}
leave_out 'every=, min_interval=, sample= and other options of taps' eager_sites eager_taps full_queue interrupted tap_sending
leave_out 'sinks of arrays and event files, statistics' array_files samplers statistics tensorboard
leave_out 'rotated, synced and locked files' sink_files
leave_out 'profiles' profile
leave_out 'places of NaN' locate_nans located_{modules,rules}
leave_out 'progress bars' progress progress_{bars,carried,compiled,payloads,transformations}
leave_out 'log records of failing calls' logs_of_failing_calls
leave_out 'all kinds of exported programs' exported_fallback_golden hostile_{calls,taps}
mkdir -p build/pure
ci/build_wheels.sh pure
wheel=$(echo "$PWD"/dist/callout-*-py3-none-any.whl)

# Prints the file of dist/ that pip chooses for a system, beside the wheels with the core.
chosen() { # PYTHON MINOR ABI PLATFORM
  rm -rf build/pure/chosen
  "$1" -m pip download --quiet --disable-pip-version-check --no-index --no-deps --only-binary :all: --find-links dist \
    --python-version "$2" --implementation cp --abi "$3" --platform "$4" --dest build/pure/chosen callout > /dev/null
  basename build/pure/chosen/*.whl
}

check_choice() { # PYTHON
  local python=$1 told tags expected
  for told in '3.12 cp312 macosx_14_0_arm64' '3.12 cp312 win_amd64' '3.12 cp312 manylinux_2_28_aarch64' \
    '3.14 cp314t manylinux_2_28_x86_64' '3.15 cp315 manylinux_2_28_x86_64'; do
    tags=${told#* }
    tags=${tags/ /-} expected=py3-none-any
    ! compgen -G "dist/callout-*-$tags.whl" > /dev/null || expected=$tags # ci/free_threaded.sh has built that one
    # shellcheck disable=SC2086 # three words
    [[ $(chosen "$python" $told) == *-"$expected".whl ]] || { echo "pure: pip takes another wheel for $told"; return 1; }
  done
  [[ ! -e $(echo dist/callout-*-cp312-*manylinux_2_28_x86_64.whl) ]] ||
    [[ $(chosen "$python" 3.12 cp312 manylinux_2_28_x86_64) == *-cp312-* ]] ||
    { echo "pure: pip takes the pure wheel where one with the core fits"; return 1; }
  echo "pip takes the pure wheel on macOS, Windows, aarch64, free-threaded and newer Pythons"
}

failed=0
for cell in "${cells[@]}"; do
  minor=${cell%%:*} jax=${cell#*:}
  venv=build/pure/py$minor-jax$jax
  if ! python=$(PYTHON='' scripts/find_python.sh "$minor" 2> /dev/null); then
    echo "pure: Python $minor: SKIPPED: not found"
    continue
  fi
  grep -vE '^jax(lib)?==' requirements/constraints.txt > build/pure/constraints.txt
  made_of="$python $jax $(sha256sum < build/pure/constraints.txt)"
  if [[ $(cat "$venv/made-of" 2> /dev/null) != "$made_of" ]]; then
    "$python" -m venv --clear "$venv"
    scripts/install_packages.sh "$PWD/$venv/bin/python" -c build/pure/constraints.txt \
      "jax==$jax" "jaxlib==$jax" numpy ml_dtypes tqdm flatbuffers pytest hypothesis cloudpickle pandas tensorboard prometheus_client
    echo "$made_of" > "$venv/made-of"
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheel"
  check_choice "$venv/bin/python" || failed=1
  "$venv/bin/python" -m callout.doctor > "$venv.doctor" 2>&1 || { cat "$venv.doctor"; failed=1; }
  grep '^wheel ' "$venv.doctor"
  status=0
  found=$(ci/by_jax_suites.sh "$size") # its status counts, as that of <(...) does not
  suites=()
  for file in $found; do
    suite=${file##*/test_} suite=${suite%.py}
    [[ -z ${left_out[$suite]:-} ]] || { echo "pure: $file is left out: ${left_out[$suite]} take the C++ core"; continue; }
    suites+=("$file")
  done
  printf '%s\0' "${suites[@]}" | CALLOUT_FALLBACK=always PYTEST_ADDOPTS=$sets xargs -0 -P "$(nproc)" -n "$(((${#suites[@]} + 1) / 2))" \
    bash -c '"$0" -m pytest -q -p no:cacheprovider "$@" < /dev/null > "$(mktemp "'"$venv"'.XXXXXX.log")" 2>&1' \
    "$venv/bin/python" || status=1
  count() { # OUTCOME
    tail -q -n 1 "$venv".*.log | grep -oE "[0-9]+ $1" | awk '{ n += $1 } END { print n + 0 }'
  }
  ((status == 0)) || { tail -n 200 "$venv".*.log; failed=1; }
  grep -hE '^(SKIPPED|FAILED|ERROR) ' "$venv".*.log || true
  echo "pure: Python $minor, JAX $jax: $(count passed) passed, $(count skipped) skipped, $(count failed) failed, $(count error) errors"
  rm -f "$venv".*.log
done
exit "$failed"
