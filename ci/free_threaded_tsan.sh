#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs suites with the extension, the core and free-threaded Python itself under ThreadSanitizer. jaxlib and NumPy are not
# instrumented: races between them alone are not seen, and the order that they establish is unknown, see `unseen` below.
# Usage: free_threaded_tsan.sh [SUITE...]  SUITE: tap for test_tap.py.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up .venv/.stamps/cmake
minor=3.14t jax=0.12.0.1
suites=(many_threads pure_callback io_callback errors lifetime tap tap_errors tap_sending eager_{sites,taps} barrier full_queue ordered
  statistics stats gathering devices)
(($# == 0)) || suites=("$@")
root=$PWD/build/free-threaded-tsan
mkdir -p "$root"

skip() { echo "free-threaded-tsan: SKIPPED: $1" && exit 0; }
# ThreadSanitizer of GCC 12 does not work with the address randomisation of newer kernels.
fixed=()
if setarch "$(uname -m)" -R true 2> /dev/null; then fixed=(setarch "$(uname -m)" -R); fi
export TSAN_OPTIONS=report_bugs=0
ci/build_python.sh "$minor" || skip "no Python $minor, and none could be built"
"${fixed[@]}" ci/build_python.sh "$minor" thread || skip "Python $minor with ThreadSanitizer could not be built"
python=$(PYTHON='' scripts/find_python.sh "$minor" 2> /dev/null)

echo "== wheel"
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps -C build-dir="$root/build" -C cmake.build-type=RelWithDebInfo \
  -C install.strip=false -C cmake.define.CALLOUT_SANITIZE=thread --wheel-dir "$root" . > "$root/wheel.log" 2>&1 < /dev/null ||
  { tail -n 100 "$root/wheel.log" && exit 1; }

# The Python without a sanitizer installs the packages, because it has an equal ABI, and is faster.
site=$root/site
wanted="$python $jax $(sha256sum < requirements/free-threaded.txt)"
if [[ $(cat "$site/made-of" 2> /dev/null) != "$wanted" ]]; then
  rm -rf "$site"
  "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --target "$site" "jax==$jax" "jaxlib==$jax" \
    -r requirements/free-threaded.txt
  echo "$wanted" > "$site/made-of"
fi
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --upgrade --target "$site" "$root"/callout-*.whl

files=()
for suite in "${suites[@]}"; do files+=(tests/python/*/"test_$suite.py"); done
# ThreadSanitizer cannot see these orders. The last owner of an executable destroys its state, ordered by XLA's
# reference counts. Functions for a compiled program's results come from a table of jaxlib, guarded by its own lock.
# Functions that `jit` made for an operation outside of programs pass between threads through such a table, too.
printf 'race:%s\n' 'xla::cpu::CustomCallThunk::~CustomCallThunk' '^nanobind::detail::obj_vectorcall' \
  '^jax::BuildPjitSubmodule' > "$root/unseen"
rm -f "$root"/report.*
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=0 exitcode=0 log_path=$root/report suppressions=$root/unseen"
status=0
PYTHONPATH=$site "${fixed[@]}" "build/tsan-pythons/$minor/bin/python3" -m pytest -p no:cacheprovider -o filterwarnings= \
  "${files[@]}" || status=$?
reports=$(cat "$root"/report.* 2> /dev/null | grep -c '^WARNING: ThreadSanitizer' || true)
cat "$root"/report.* 2> /dev/null | head -n 400 || true
echo "free-threaded-tsan: ${#files[@]} suites, exit code $status, $reports report(s)"
((status == 0 && reports == 0))
