#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: system_packages.sh PACKAGE:HEADER... PACKAGE:@COMMAND... PACKAGE:LIBRARY.so...  Installs Debian packages whose
# header the compiler does not find, whose command is missing, or whose library the linker does not find, if this is
# possible without a prompt. Otherwise CMake fetches the sources, or tests are skipped.
set -euo pipefail

command -v "${CXX:-g++}" > /dev/null || {
  echo "callout: no C++ compiler; install g++ 12 or newer" >&2
  exit 1
}
missing=()
for pair in "$@"; do
  if [[ $pair == *:@* ]]; then
    command -v "${pair#*:@}" > /dev/null || missing+=("${pair%%:*}")
  elif [[ $pair == *:*.so* ]]; then
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2> /dev/null | grep -qF "${pair#*:}" || missing+=("${pair%%:*}")
  elif ! echo "#include <${pair#*:}>" | "${CXX:-g++}" -E -x c++ - > /dev/null 2>&1; then
    missing+=("${pair%%:*}")
  fi
done
((${#missing[@]})) || exit 0
if [[ $(id -u) != 0 ]] || ! command -v apt-get > /dev/null; then
  echo "callout: ${missing[*]} not installed: what needs them is fetched or skipped"
  exit 0
fi
echo "callout: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -qq -y --no-install-recommends "${missing[@]}" < /dev/null > /dev/null; }
install 2> /dev/null || { apt-get update -qq < /dev/null && install; } ||
  echo "callout: apt-get failed: what needs them is fetched or skipped"
