#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every check that needs no execution of our code, and reports all failures at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
failed=()

check() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@" || failed+=("$name")
  ((SECONDS - start < 10)) || echo "   ($((SECONDS - start)) s)"
}

mapfile -t cpp < <(git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' '*.c')
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard -- '*.sh' .ci/run)
python_code=(python scripts)
for folder in tests benchmarks examples; do
  [[ -d $folder ]] && python_code+=("$folder")
done

clang_tidy() {
  if ! command -v clang-tidy > /dev/null; then
    echo "   not installed: skipped"
    return 0
  fi
  # Configuring is enough for the compile database.
  cmake --preset dev > build/lint-configure.log || { cat build/lint-configure.log; return 1; }
  local sources
  mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- \
    'src/*.cc' ':!src/*_test.cc' ':!src/testing' ':!src/*/testdata/*')
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/dev \
    --extra-arg=-Wthread-safety --extra-arg=-Wno-unknown-warning-option 2> build/lint-tidy.log
}

functions() {
  # A report, not a failure: a long table may be the clearest form.
  "$bin"/lizard --length 60 --CCN 1000 --arguments 100 --warnings_only include src python || true
}

mkdir -p build
check clang-format "$bin"/clang-format --dry-run -Werror "${cpp[@]}"
check ruff "$bin"/ruff check "${python_code[@]}"
check ruff-format "$bin"/ruff format --check --diff "${python_code[@]}"
check mypy "$bin"/mypy
check codespell "$bin"/codespell
check layers "$bin"/python scripts/check_layers.py
check shell bash -n "${scripts[@]}"
check functions-over-60-lines functions
check clang-tidy clang_tidy

if ((${#failed[@]})); then
  echo "lint: FAILED: ${failed[*]}"
  exit 1
fi
echo "lint: all passed"
