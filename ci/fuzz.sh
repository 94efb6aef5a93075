#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets and runs all of them for FUZZ_SECONDS (60) together. Usage: fuzz.sh [TARGET...]
# Interesting inputs stay in build/fuzz/corpus, inputs that fail in build/fuzz/failures.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
has_clang_sanitizers fuzz || exit 0
cmake --workflow --preset fuzz

build=$PWD/build/fuzz
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cd "$build/bin" && ls -- *_fuzz)
jobs=$(nproc)
((jobs <= ${#targets[@]})) || jobs=${#targets[@]}
seconds=$((${FUZZ_SECONDS:-60} * jobs / ${#targets[@]}))
((seconds > 0)) || seconds=1
mkdir -p "$build/failures" "$build/logs"
export build seconds
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:intercept_tls_get_addr=0  # the interceptor can crash up to LLVM 16
export UBSAN_OPTIONS=print_stacktrace=1

run_target() {
  local target=$1 seeds=tests/fuzz/corpus/$1 log=$build/logs/$1
  mkdir -p "$build/corpus/$target"
  if "$build/bin/$target" -max_total_time="$seconds" -seed="${FUZZ_SEED:-0}" -timeout=20 -max_len=4096 -len_control=100 -rss_limit_mb=2048 \
    -artifact_prefix="$build/failures/$target-" "$build/corpus/$target" "$seeds" > "$log" 2>&1; then
    printf '%-16s %s\n' "$target" "$(grep -E '^Done' "$log")"
  else
    tail -n 60 "$log"
    echo "fuzz: $target FAILED; again: build/fuzz/bin/$target build/fuzz/failures/$target-..."
    return 1
  fi
}
export -f run_target
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'run_target "$0"' || exit 1
echo "fuzz: ${#targets[@]} targets, no failures"
