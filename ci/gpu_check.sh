#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all checks that need a GPU, and prints one table; rows that cannot run here give the reason. Usage: gpu_check.sh
# [OPTIONS of benchmarks/python/gpu/check.py]. In the environment: GPU_PYTHON, an interpreter whose JAX has the CUDA
# plugin (default: .venv's, which has none), and CALLOUT_WHEEL, a wheel to test with it (default: one is built).
set -euo pipefail
source "$(dirname "$0")/setup.sh"
python=${GPU_PYTHON:-.venv/bin/python}
if [[ -z ${GPU_PYTHON:-} ]]; then
  set_up install .venv/.stamps/dev
else
  wheel=${CALLOUT_WHEEL:-}
  if [[ -z $wheel ]]; then
    minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    ci/build_wheels.sh "$minor"
    wheel=$(echo dist/callout-*-cp"${minor/./}"-*.whl)
  fi
  rm -rf build/gpu-site
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target build/gpu-site "$wheel"
  export PYTHONPATH=$PWD/build/gpu-site${PYTHONPATH:+:$PYTHONPATH}
fi
exec "$python" benchmarks/python/gpu/check.py "$@"
