#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a CPython that can build the package: 3.11 to 3.14, or exactly the minor
# version given as argument, with venv, pip and headers; 3.13t: a free-threaded one. The environment's PYTHON goes first.
set -euo pipefail
wanted=${1:-}

candidates=()
[[ -n ${PYTHON:-} ]] && candidates+=("$PYTHON")
for minor in ${wanted:-3 3.12 3.13 3.14 3.11}; do
  candidates+=("python$minor")
done
for minor in ${wanted:-3.12 3.13 3.14 3.11}; do
  for found in "${PYENV_ROOT:-$HOME/.pyenv}/versions/${minor%t}".*/bin/python3 build/pythons/*/bin/"python$minor"; do
    [[ -x $found ]] && candidates+=("$found")
  done
done

check='
import sys, sysconfig, pathlib
wanted = sys.argv[1]
minor = "%d.%d" % sys.version_info[:2] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
if wanted and minor != wanted or minor.rstrip("t") not in ("3.11", "3.12", "3.13", "3.14"):
    sys.exit("is Python " + minor)
if not wanted and minor.endswith("t"):
    sys.exit("is a free-threaded build")
try:
    import ensurepip, venv
except ImportError:
    sys.exit("has no venv module")
if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
    sys.exit("has no Python.h")
# For a virtual environment, print the interpreter that it was made with.
print(getattr(sys, "_base_executable", sys.executable))
'
for candidate in "${candidates[@]}"; do
  if ! command -v "$candidate" > /dev/null; then
    echo "$candidate: not found" >&2
  elif reason=$("$candidate" -c "$check" "$wanted" 2>&1); then
    echo "$reason"
    exit 0
  else
    echo "$candidate: ${reason##*$'\n'}" >&2
  fi
done
echo "no usable Python ${wanted:-3.11 to 3.14} found; set PYTHON to one" >&2
exit 1
