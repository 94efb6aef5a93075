#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a missing CPython from Debian's source package into build/pythons, which takes minutes. Without a network or a
# compiler it fails with an error. Usage: build_python.sh 3.13t|3.14|3.14t [thread]
# thread: with ThreadSanitizer, into build/tsan-pythons, where other scripts do not look for a Python.
set -euo pipefail
cd "$(dirname "$0")/.."
minor=${1:?usage: build_python.sh 3.13t|3.14|3.14t [thread]} sanitizer=${2:-}
case $minor in # a version and its SHA-256, and where Debian may no longer have it, the suites that have another
  3.13t) version=3.13.5 digest=93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640 suites=(trixie) ;;
  3.14 | 3.14t) version=3.14.7 digest=3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81 suites=(forky sid) ;;
  *) echo "build_python.sh: expected 3.13t, 3.14 or 3.14t, got $minor" >&2 && exit 2 ;;
esac
[[ -z $sanitizer || $sanitizer == thread ]] || { echo "build_python.sh: expected thread or nothing, got $sanitizer" >&2 && exit 2; }
scripts=$PWD/scripts
if [[ $sanitizer == thread ]]; then
  prefix=$PWD/build/tsan-pythons/$minor
  [[ ! -x $prefix/bin/python3 ]] || exit 0
else
  prefix=$PWD/build/pythons/$minor
  ! PYTHON='' scripts/find_python.sh "$minor" > /dev/null 2>&1 || exit 0
fi
work=$prefix-source # with the logs
source_package=python${minor%t}

fetch_pinned() { # MIRROR
  /usr/lib/apt/apt-helper download-file "${1%/}/pool/main/p/$source_package/${source_package}_$version.orig.tar.xz" \
    "$PWD/${source_package}_$version.orig.tar.xz" "SHA256:$digest" < /dev/null
}

fetch_of_suite() { # MIRROR SUITE: without touching the system's package lists
  mkdir -p "lists-$2/partial"
  echo "deb-src $1 $2 main" > "sources-$2.list"
  local options=(-qq -o Dir::Etc::SourceList="$PWD/sources-$2.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$PWD/lists-$2"
    -o Acquire::Languages=none -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update < /dev/null && apt-get "${options[@]}" source --download-only "$source_package" < /dev/null
}

has_source() { compgen -G "${source_package}_*.orig.tar.xz" > /dev/null; }

fetch() {
  has_source && return
  local mirror suite
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' | grep -v security | sort -u | head -n 1) ||
    true
  [[ -n $mirror ]] || { echo "build_python.sh: this system has no packages of Debian's" >&2 && return 1; }
  fetch_pinned "$mirror" && return
  for suite in "${suites[@]}"; do
    fetch_of_suite "$mirror" "$suite" && has_source && return
  done
  echo "build_python.sh: the source of $source_package could not be fetched from Debian, neither $version nor that of ${suites[*]}" >&2
  return 1
}

# Installs only the parts that pip and JAX need.
build() {
  local options=(--quiet --disable-test-modules --prefix="$prefix")
  [[ $minor != *t ]] || options+=(--disable-gil)
  [[ $sanitizer != thread ]] || options+=(--with-thread-sanitizer)
  ./configure "${options[@]}" > ../configure.log 2>&1 && make --silent --jobs="$(nproc)" > ../make.log 2>&1 &&
    ./python -c 'import bz2, ctypes, lzma, ssl, zlib' && make --silent install > ../install.log 2>&1
}

echo "Python $minor: building it"
"$scripts/system_packages.sh" libffi-dev:ffi.h libssl-dev:openssl/ssl.h zlib1g-dev:zlib.h libbz2-dev:bzlib.h liblzma-dev:lzma.h
mkdir -p "$work"
cd "$work"
fetch
rm -rf source && mkdir source && tar -C source --strip-components=1 -xf "${source_package}"_*.orig.tar.xz
cd source
build || { echo "build_python.sh: Python $minor could not be built, see $work/*.log" >&2 && exit 1; }
