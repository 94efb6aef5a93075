#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the wheels for aarch64 of what the suites need, jaxlib among them, where build/aarch64-python/bin/python finds
# them, and the host's CPU plugin beside. Usage: packages.sh PYTHON  PYTHON: of the same minor version as that one, with pip.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 folder=build/aarch64-python
packages=(jax numpy ml_dtypes tqdm flatbuffers pytest hypothesis pandas pillow pyarrow tensorboard zarr)

made_of=$(sha256sum requirements/{constraints,pjrt}.txt ci/aarch64/packages.sh)
[[ $made_of != "$(cat "$folder/packages" 2> /dev/null)" ]] || exit 0
echo "aarch64: fetching ${packages[*]}, xla-cpu-pjrt"
rm -rf "$folder"/{site/*,plugin,packages}
ci/aarch64/sysroot.sh
# pip runs no code of another processor, and so asks for the platforms by name.
install=("$python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --upgrade
  --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64)
"${install[@]}" --target "$folder/site" -c requirements/constraints.txt "${packages[@]}"
"${install[@]}" --target "$folder/plugin" --no-deps "$(grep -oE '^xla-cpu-pjrt==\S+' requirements/pjrt.txt)"
echo "$made_of" > "$folder/packages"
