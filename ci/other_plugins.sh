#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the C++ host with other CPU plugins than xla-cpu-pjrt's, each alone and beside another one. Usage:
# other_plugins.sh. The plugins of requirements/other-plugins.txt are installed into build/other-plugins.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
set_up setup
root=$PWD/build/other-plugins
python=${PYTHON:-.venv/bin/python}
mkdir -p "$root"

if ! cmp -s requirements/other-plugins.txt "$root/made-of"; then
  rm -rf "$root/site"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --target "$root/site" -r requirements/other-plugins.txt
  cp requirements/other-plugins.txt "$root/made-of"
fi

# Three things are not tested: xla-cpu-pjrt's version; the costs of a program, which these plugins do not report; and,
# with PJRT 0.106, a launch over several devices that fails on one of them, which crashes the process. Only unchecked
# arguments of wrong types cause such a failure.
skipped=CApiRunTest.SaysWhatItHas:PluginTest.SaysWhatItIs:ExecutableTest.TellsItsCosts
fastatomstruct=$root/site/fastatomstruct_xla_cpu/libpjrt_cpu.so
lammps=$root/site/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so

failed=0
test_with() { # PLUGIN OTHER_PLUGIN SKIPPED
  cmake --preset dev -B "$root/build" -DCALLOUT_CPU_PLUGIN="$1"
  cmake --build "$root/build" --target host_plugin_test
  CALLOUT_TEST_OTHER_PLUGIN=$2 "$root/build/src/host/host_plugin_test" --gtest_brief=1 --gtest_filter="-$3" || failed=1
}
test_with "$fastatomstruct" "$lammps" "$skipped:ContextOfARunTest.StaysWhereTheLaunchOnAnotherDeviceFails"
test_with "$lammps" "$fastatomstruct" "$skipped"
exit "$failed"
