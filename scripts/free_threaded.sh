#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel for free-threaded Python and tests it, installed. Where no such interpreter is found, it is built from
# Debian's source package in build/free-threaded, which takes minutes. Usage: free_threaded.sh
set -euo pipefail
cd "$(dirname "$0")/.."
minor=3.13t jax=0.10.2 # the newest JAX with wheels for it, see requirements/free-threaded.txt
suite=trixie            # of Debian, whose Python is 3.13
home=$PWD/build/free-threaded

fetch_source() { # lays down python3.13_*.orig.tar.xz, without touching the system's package lists
  local index
  command -v apt-get > /dev/null || return 1
  # shellcheck disable=SC2016
  index=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' | grep -v security | sort -u | head -n 1)
  [[ -n $index ]] || return 1
  mkdir -p lists/partial
  echo "deb-src $index $suite main" > sources.list
  local options=(-qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$PWD/lists"
    -o Acquire::Languages=none -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update < /dev/null && apt-get "${options[@]}" source --download-only "python${minor%t}" < /dev/null
}

build_python() {
  mkdir -p "$home"
  cd "$home"
  compgen -G "python${minor%t}_*.orig.tar.xz" > /dev/null || fetch_source || return 1
  scripts=$OLDPWD/scripts
  "$scripts/system_packages.sh" libffi-dev:ffi.h libssl-dev:openssl/ssl.h zlib1g-dev:zlib.h libbz2-dev:bzlib.h liblzma-dev:lzma.h
  rm -rf source && mkdir source && tar -C source --strip-components=1 -xf "python${minor%t}"_*.orig.tar.xz
  cd source
  # Installed only with what pip and JAX need.
  ./configure --quiet --disable-gil --disable-test-modules --prefix="$home/$minor" > ../configure.log 2>&1 &&
    make --silent --jobs="$(nproc)" > ../make.log 2>&1 &&
    ./python -c 'import bz2, ctypes, lzma, ssl, zlib' && make --silent install > ../install.log 2>&1
}

if ! PYTHON='' scripts/find_python.sh "$minor" > /dev/null 2>&1; then
  echo "free-threaded: building Python $minor"
  (build_python) || { echo "free-threaded: SKIPPED: no Python $minor, and none could be built, see build/free-threaded"; exit 0; }
fi
scripts/jax_matrix.sh "$minor:$jax"
