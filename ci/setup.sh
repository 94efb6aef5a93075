# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the scripts of ci/ to `source`: goes to the repository's root and puts .venv first on PATH, like the Makefile for
# its recipes. `set_up TARGET...` has make prepare what a script needs: setup, install, or a stamp of .venv/.stamps.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
export PATH="$PWD/.venv/bin:$PATH" CALLOUT_PYTHON="$PWD/.venv/bin/python"

# The flags for the new `checkpoint`, `custom_vjp` and `custom_jvp` of JAX 0.12.
# shellcheck disable=SC2034 # used by scripts that source this
jax_new_rules=(JAX_REMAT3=1 JAX_CUSTOM_VJP3=1 JAX_CUSTOM_JVP3=1)

set_up() { make --no-print-directory "$@"; }

# Installs Clang if possible. Fails, and prints "NAME: SKIPPED: why", if Clang cannot link a fuzzer with sanitizers.
has_clang_sanitizers() { # NAME
  scripts/system_packages.sh clang:@clang++ libclang-rt-dev:@clang++
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null > /dev/null 2>&1 ||
    { echo "$1: SKIPPED: no clang++ with libFuzzer and sanitizers (Debian: clang, libclang-rt-dev)" && return 1; }
}
