#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles programs with callbacks for TPUs, without a TPU, and checks what they send and receive. Usage: tpu_check.sh
# [OPTIONS of tests/tpu/check.py]. It makes an environment in build/tpu-check with requirements/tpu-check.txt, in which
# libtpu comes under the terms of Google Cloud. In the environment: CALLOUT_WHEEL, a wheel to test (default: one is built).
set -euo pipefail
source "$(dirname "$0")/setup.sh"
root=build/tpu-check
python=${PYTHON:-.venv/bin/python}
[[ -n ${PYTHON:-} ]] || set_up .venv/.stamps/cmake
mkdir -p "$root"

wheel=${CALLOUT_WHEEL:-}
if [[ -z $wheel ]]; then
  minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  ci/build_wheels.sh "$minor"
  wheel=$(echo dist/callout-*-cp"${minor/./}"-*.whl)
fi

wanted="$("$python" --version) $(sha256sum < requirements/tpu-check.txt)"
if [[ $(cat "$root/venv/made-of" 2> /dev/null) != "$wanted" ]]; then
  "$python" -m venv --clear "$root/venv"
  "$root/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    -r requirements/tpu-check.txt
  echo "$wanted" > "$root/venv/made-of"
fi
"$root/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheel"
exec "$root/venv/bin/python" tests/tpu/check.py --text "$root/text" "$@"
