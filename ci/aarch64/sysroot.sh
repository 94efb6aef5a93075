#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks Debian's Python for arm64, and the libraries that the host is linked with, into build/aarch64-sysroot, and
# writes build/aarch64-python/bin: this Python under qemu, and cross-compilers. The script installs nothing, and changes
# neither the system's package lists nor its architectures. Existing files stay.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(python3 libpython3-dev libstdc++6 libminizip-dev zlib1g-dev)
sysroot=$PWD/build/aarch64-sysroot debs=$PWD/build/aarch64-debs python=$PWD/build/aarch64-python

if ! cmp -s ci/aarch64/sysroot.sh "$sysroot/made-by"; then
  command -v apt-get > /dev/null || { echo "aarch64: no apt-get to fetch Python for arm64 with" >&2; exit 1; }
  echo "aarch64: fetching ${packages[*]} for arm64"
  rm -rf "$sysroot" "$debs"
  mkdir -p "$sysroot" "$debs"/{lists,archives}/partial
  touch "$debs/status" # as if nothing were installed: all that they need is fetched, too
  options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Acquire::Languages=none
    -o Dir::State="$debs" -o Dir::State::Lists="$debs/lists" -o Dir::State::status="$debs/status" -o Dir::Cache="$debs")
  # Another publisher's list may have nothing for arm64.
  apt-get "${options[@]}" update < /dev/null || true
  apt-get "${options[@]}" install -y --no-install-recommends --download-only "${packages[@]}" < /dev/null > /dev/null
  for deb in "$debs"/archives/*.deb; do dpkg-deb -x "$deb" "$sysroot"; done
  rm -rf "$debs"
  cp ci/aarch64/sysroot.sh "$sysroot/made-by"
fi

interpreter=$(find "$sysroot/usr/bin" -name 'python3.[0-9]*' -type f -print -quit)
[[ -n $interpreter ]] || { echo "aarch64: no Python in $sysroot" >&2; exit 1; }
mkdir -p "$python"/{bin,site,sysconfig}

write() { # NAME LINE...
  printf '%s\n' '#!/bin/sh' "${@:2}" > "$python/bin/$1"
  chmod +x "$python/bin/$1"
}
# qemu-user does not run started programs under qemu, so tests start these wrappers, too.
write python "export PATH=\"$python/bin:\$PATH\" PYTHONPATH=\"$python/site\${PYTHONPATH:+:\$PYTHONPATH}\"" \
  "exec qemu-aarch64-static -L '$sysroot' '$interpreter' \"\$@\""
echo "import sys; sys.executable = '$python/bin/python'" > "$python/site/sitecustomize.py"
write callout "exec qemu-aarch64-static -L '$sysroot' '$PWD/build/aarch64/bin/callout' \"\$@\""
write c++ 'exec aarch64-linux-gnu-g++ "$@"'
write cc 'exec aarch64-linux-gnu-gcc "$@"'
# The build reads these facts from an interpreter.
cp "$sysroot/usr/lib/${interpreter##*/}"/_sysconfigdata__aarch64-linux-gnu.py "$python/sysconfig"
