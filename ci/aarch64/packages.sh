#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the suites' packages for aarch64, such as jaxlib, where build/aarch64-python/bin/python finds them, and the
# host's CPU plugin. Usage: packages.sh PYTHON  PYTHON: with pip, and of the minor version of that Python.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 folder=build/aarch64-python
packages=(jax numpy ml_dtypes tqdm flatbuffers pytest hypothesis pandas pillow pyarrow tensorboard zarr)

made_of=$(sha256sum requirements/{constraints,pjrt}.txt ci/aarch64/packages.sh)
[[ $made_of != "$(cat "$folder/packages" 2> /dev/null)" ]] || exit 0
echo "aarch64: fetching ${packages[*]}, xla-cpu-pjrt"
rm -rf "$folder"/{site/*,plugin,packages}
ci/aarch64/sysroot.sh
# pip cannot run code of another processor, so the platforms are named.
install=("$python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --upgrade
  --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64)
"${install[@]}" --target "$folder/site" -c requirements/constraints.txt "${packages[@]}"
"${install[@]}" --target "$folder/plugin" --no-deps "$(grep -oE '^xla-cpu-pjrt==\S+' requirements/pjrt.txt)"
echo "$made_of" > "$folder/packages"
