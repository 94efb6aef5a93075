# SPDX-License-Identifier: Apache-2.0
"""Registers and calls the foreign functions of ffi_handlers.cc."""

import ctypes
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from callout import ffi

F3 = jax.ShapeDtypeStruct((3,), jnp.float32)
SCALAR = jax.ShapeDtypeStruct((), jnp.float32)
SIGNATURES = {
    "affine": "(x: f32[...]  , *, a: f32, b: s64) -> (y: f32)",
    "moments": "(x: f32[n], *, mode: any, weights: s32[], options: dict, negate: bool) -> (sum: f32[], largest: f32[])",
    "in_memory": None,
    "add_one": None,
    "note": None,
    "pass": "(x: f32[]) -> (y: f32[])",
    "turn_keys": "(keys: u32[..., w]) -> (turned: u32[..., w], sums: u32)",
    "row_sums": "(x: f32[n, m]) -> (y: f32[n])",
}


def build(folder):
    """Builds the library in `folder` and returns its path."""
    path = folder / "libhandlers.so"
    source = Path(__file__).with_name("ffi_handlers.cc")
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ffi.include_dir()}"]
    subprocess.run(["c++", *flags, str(source), "-o", str(path)], check=True)
    return path


def register(path):
    """Registers the targets of the library: "test.affine", ..."""
    library = ctypes.CDLL(str(path))
    jax.devices()  # without a backend, JAX would not register types before targets
    for name, signature in SIGNATURES.items():
        ffi.register_ffi_target(f"test.{name}", ffi.pycapsule(getattr(library, name)), signature=signature)
    for function in (library.count_type_id, library.count_type_info):
        function.restype = ctypes.c_void_p
    types = {"type_id": ffi.pycapsule(library.count_type_id()), "type_info": ffi.pycapsule(library.count_type_info())}
    ffi.register_ffi_type("test.Count", types)
    stages = {stage: ffi.pycapsule(getattr(library, f"count_{stage}")) for stage in ("instantiate", "execute")}
    ffi.register_ffi_target("test.count", stages)
    for name in ("legacy_twice", "legacy_opaque"):
        ffi.register_ffi_target(f"test.{name}", ffi.pycapsule(getattr(library, name)), api_version=0)
    library.noted.restype = ctypes.c_int64
    return library


def affine(x, a=2.0, b=1, **settings):
    call = ffi.ffi_call("test.affine", jax.ShapeDtypeStruct(x.shape, jnp.float32), **settings)
    return call(x, a=np.float32(a), b=np.int64(b))


def moments(x, **attributes):
    given = {"mode": "", "weights": np.zeros(1, np.int32), "options": {}, "negate": False, **attributes}
    return ffi.ffi_call("test.moments", (SCALAR, SCALAR))(x, **given)
