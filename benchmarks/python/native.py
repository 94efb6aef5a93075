# SPDX-License-Identifier: Apache-2.0
"""Builds and registers the benchmarks' C++: the floor, a native callback, and a callback of jax-tvm-ffi."""

import os
from pathlib import Path

import callout
from floor import build, build_floor, register_floor


def register(out: Path) -> Path:
    """Registers the FFI targets `floor_*` and the callback `bench.copy`. Returns the floor's library."""
    out.mkdir(parents=True, exist_ok=True)
    floor = build_floor(out)
    register_floor(floor)
    callout.register("bench.copy", f"{build('native', callout.include_dir(), out)}:copy")
    return floor


TVM_COPY = """
#include <cstring>
void copy(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  size_t bytes = 4;
  for (int i = 0; i < x.ndim(); ++i) bytes *= x.size(i);
  std::memcpy(y.data_ptr(), x.data_ptr(), bytes);
}
"""


def register_tvm(out: Path) -> dict[str, str]:
    """Registers the identity through jax-tvm-ffi. Returns the missing targets: {target: reason}."""
    os.environ.setdefault("TVM_FFI_CACHE_DIR", str(out / "tvm-ffi"))
    targets = ("tvm_python", "tvm_cpp")
    try:
        import jax_tvm_ffi
        import numpy as np
        import tvm_ffi
        import tvm_ffi.cpp
    except ImportError as error:
        return dict.fromkeys(targets, f"not installed: {error}")

    def copy(x, out):
        np.from_dlpack(out)[...] = np.from_dlpack(x)

    # Without owned tensors, jax-tvm-ffi 0.1.3 crashes in a Python function that reads them.
    spec = ["args", "rets"]
    jax_tvm_ffi.register_ffi_target("tvm_python", tvm_ffi.convert(copy), spec, pass_owned_tensor=True)
    try:
        module = tvm_ffi.cpp.load_inline("bench_copy", cpp_sources=TVM_COPY, functions=["copy"])
    except Exception as error:  # noqa: BLE001 - without a compiler or ninja, the benchmark skips it
        return {"tvm_cpp": f"it did not build: {str(error).splitlines()[-1][:120]}"}
    jax_tvm_ffi.register_ffi_target("tvm_cpp", module.copy, spec)
    return {}
