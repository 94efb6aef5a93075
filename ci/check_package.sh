#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs small programs against installed packages: the CMake package of a wheel and of a prefix, both moved
# after installation to prove that they are relocatable, and the prefix's pkg-config files, from C and from Rust.
# Usage: check_package.sh SITE_PACKAGES BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/source"
cat > "$scratch/source/CMakeLists.txt" << 'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(callout CONFIG REQUIRED COMPONENTS core ${COMPONENTS})
add_executable(consumer consumer.cc)
target_link_libraries(consumer PRIVATE callout::core)
CMAKE
cp -r "$1/callout" "$scratch/wheel"
cmake --install "$2" --prefix "$scratch/installed" > "$scratch/log"
grep -qF "the CPU plugin is not installed; it is $(scripts/plugin_path.sh "$2")" "$scratch/log" ||
  { cat "$scratch/log"; echo "cmake --install must say where the CPU plugin lies"; exit 1; }
mv "$scratch/installed" "$scratch/prefix"

for kind in wheel prefix; do
  build=$scratch/build-$kind
  {
    for header in include/callout/*.h; do
      # Wheels have no host.
      [[ $kind == wheel && $header == */c_api.h ]] || echo "#include \"callout/${header##*/}\""
    done
    echo '#include "callout/version.h"'
    echo 'int main() { return callout_get_api(CALLOUT_ABI_VERSION) != nullptr ? 0 : 1; }'
  } > "$scratch/source/consumer.cc"
  cmake -S "$scratch/source" -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/$kind" > "$scratch/log" ||
    { cat "$scratch/log"; exit 1; }
  cmake --build "$build" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
  "$build/consumer" || { echo "the program built with the $kind failed"; exit 1; }
  echo "CMake package of the $kind: works"
done

# A project may ask for the host, which a wheel does not have.
cmake -S "$scratch/source" -B "$scratch/build-host" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCOMPONENTS="pjrt;static" \
  > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
if cmake -S "$scratch/source" -B "$scratch/build-no-host" -DCMAKE_PREFIX_PATH="$scratch/wheel" -DCOMPONENTS=pjrt \
  > "$scratch/log" 2>&1 || ! grep -q 'this installation of callout has no C++ host' "$scratch/log"; then
  cat "$scratch/log"
  echo "the wheel's package must refuse the component pjrt, and say why"
  exit 1
fi
echo "CMake package with components: works"

# The host: a program that JAX exported, run by a C++ and by a C program.
plugin=$(scripts/plugin_path.sh "$2")
python=${CALLOUT_PYTHON:-python3}
"$python" examples/cpp_host/export.py "$scratch/train.bc" "$plugin" > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
train() { # PROGRAM: a host that was built
  "$1" "$scratch/train.bc" "$plugin" > "$scratch/out" 2> "$scratch/log" || { cat "$scratch/log"; exit 1; }
  [[ $(grep -c '^loss ' "$scratch/out") == 20 ]] || { cat "$scratch/out"; echo "$1: expected 20 losses"; exit 1; }
}
for host in cpp_host c_host; do
  cmake -S "examples/$host" -B "$scratch/$host" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" > "$scratch/log" &&
    cmake --build "$scratch/$host" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
  train "$scratch/$host/$host"
  echo "CMake package of the host: works for $host"
done

# The C program again, with a static library, in a project without C++.
cp -r examples/c_host "$scratch/c_static_source"
sed -i 's/callout::pjrt/callout::static/; s/COMPONENTS pjrt/COMPONENTS static/' "$scratch/c_static_source/CMakeLists.txt"
cmake -S "$scratch/c_static_source" -B "$scratch/c_static" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  > "$scratch/log" && cmake --build "$scratch/c_static" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
train "$scratch/c_static/c_host"
if ldd "$scratch/c_static/c_host" | grep -q libcallout; then echo "it wants libcallout.so"; exit 1; fi
echo "CMake package of the host, callout::static: works for c_host"

# The C and the Rust program, without CMake.
scripts/system_packages.sh pkg-config:@pkg-config
if command -v pkg-config > /dev/null; then
  for pc in callout.pc callout-static.pc; do
    found=$(find "$scratch/prefix" -name "$pc")
    [[ -n $found ]] || { echo "$pc is not installed"; exit 1; }
    export PKG_CONFIG_PATH=${found%/*}
  done
  libdir=$(pkg-config --variable=libdir callout)
  for kind in callout callout-static; do
    read -ra flags <<< "$(pkg-config --cflags --libs "$kind")"
    "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror examples/c_host/main.c -o "$scratch/c_$kind" "${flags[@]}" \
      "-Wl,-rpath,$libdir"
    train "$scratch/c_$kind"
    echo "pkg-config $kind: works for c_host"
  done
  if ldd "$scratch/c_callout-static" | grep -q libcallout; then echo "it wants libcallout.so"; exit 1; fi
  if command -v cargo > /dev/null; then
    cp -r examples/rust_host "$scratch/rust_host" # cargo writes a file beside the sources
    CARGO_TARGET_DIR=$scratch/rust cargo build --quiet --offline --release \
      --manifest-path "$scratch/rust_host/Cargo.toml" 2> "$scratch/log" || { cat "$scratch/log"; exit 1; }
    train "$scratch/rust/release/rust_host"
    echo "pkg-config callout: works for rust_host"
  else
    echo "the host in Rust: not built, since cargo is not installed"
  fi
else
  echo "pkg-config: not tested, since it is not installed"
fi

# A server in C++ for a model from JAX, beside a server in Python. Their answers must be equal; the figures are for
# people.
scripts/system_packages.sh libcpp-httplib-dev:httplib.h pkg-config:@pkg-config
if command -v pkg-config > /dev/null && pkg-config --exists cpp-httplib; then
  cmake -S examples/http_server -B "$scratch/http_server" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    > "$scratch/log" && cmake --build "$scratch/http_server" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
  "$python" examples/http_server/export.py "$scratch/scores.jax" "$plugin" > "$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
  timeout 300 "$python" examples/http_server/load.py "$scratch/http_server/http_server" "$scratch/scores.jax" "$plugin" \
    200 4 1 2> "$scratch/log" || { cat "$scratch/log"; exit 1; }
  server=$scratch/http_server/http_server
  timeout 60 "$server" "$scratch/scores.jax" "$plugin" < /dev/null > "$scratch/log" 2>&1 ||
    { cat "$scratch/log"; echo "the HTTP server does not end with its input"; exit 1; }
  echo 'func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }' > "$scratch/scalar.mlir"
  rc=0
  timeout 60 "$server" "$scratch/scalar.mlir" "$plugin" < /dev/null > "$scratch/log" 2>&1 || rc=$?
  [[ $rc == 1 ]] && grep -q 'the program should take' "$scratch/log" ||
    { cat "$scratch/log"; echo "the HTTP server does not refuse a program of another signature: $rc"; exit 1; }
  echo "the HTTP server: works"
else
  echo "the HTTP server: not built, since libcpp-httplib-dev is not installed"
fi

# The training loop, linked statically except the plugin.
cp -r examples/cpp_host "$scratch/static"
sed -i 's/callout::pjrt/callout::static/' "$scratch/static/CMakeLists.txt"
cmake -S "$scratch/static" -B "$scratch/build-static" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" > "$scratch/log" &&
  cmake --build "$scratch/build-static" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
train "$scratch/build-static/cpp_host"
if ldd "$scratch/build-static/cpp_host" | grep -q libcallout; then echo "it wants libcallout.so"; exit 1; fi
echo "CMake package of the static library: works"

# The installed command, with the training loop.
cat > "$scratch/rate.cc" << 'SOURCE'
#include <callout/call.h>
CALLOUT_DEFINE_CALLBACK(rate, [](const callout::Call& call) { call.result<float>(0)[0] = 0.5F; });
SOURCE
"${CXX:-c++}" -std=c++20 -O2 -shared -fPIC -I "$scratch/prefix/include" "$scratch/rate.cc" -o "$scratch/rate.so"
"$scratch/prefix/bin/callout" run "$scratch/train.bc" --plugin "$plugin" --arg 'f32[4]=0' --bind loss=print \
  --bind "learning_rate=$scratch/rate.so:rate" > "$scratch/out" 2> "$scratch/log" || { cat "$scratch/log"; exit 1; }
[[ $(grep -c '^loss: ' "$scratch/out") == 20 ]] || { cat "$scratch/out"; echo "expected 20 losses"; exit 1; }
echo "the installed command: works"
