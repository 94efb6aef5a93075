#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ hosts of the examples inside a project that gets Callout's sources by FetchContent, and runs them. It
# compiles the library again, which takes minutes. Usage: check_fetch_content.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat > "$scratch/CMakeLists.txt" << CMAKE
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
include(FetchContent)
set(CALLOUT_BUILD_PJRT ON)
FetchContent_Declare(callout SOURCE_DIR "$PWD")
FetchContent_MakeAvailable(callout)
add_executable(shared "$PWD/examples/cpp_host/main.cc")
target_link_libraries(shared PRIVATE callout::pjrt)
add_executable(static "$PWD/examples/cpp_host/main.cc")
target_link_libraries(static PRIVATE callout::static)
CMAKE
# The plugin exists already, so nothing is downloaded twice.
plugin=$(scripts/plugin_path.sh "$1")
python=${CALLOUT_PYTHON:-python3}
cmake -S "$scratch" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release > "$scratch/log" 2>&1 &&
  cmake --build "$scratch/build" --target shared static > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
"$python" examples/cpp_host/export.py "$scratch/train.bc" "$plugin" > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
for kind in shared static; do
  "$scratch/build/$kind" "$scratch/train.bc" "$plugin" > "$scratch/out" 2> "$scratch/log" || { cat "$scratch/log"; exit 1; }
  [[ $(grep -c '^loss ' "$scratch/out") == 20 ]] || { cat "$scratch/out"; echo "$kind: expected 20 losses"; exit 1; }
  echo "FetchContent: works for callout, $kind"
done
