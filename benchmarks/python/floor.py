# SPDX-License-Identifier: Apache-2.0
"""Builds and registers the floor. Needs JAX only, because an environment without Callout uses it, too."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import jax

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HANDLERS = ("floor_copy", "floor_copy_twice", "floor_look", "floor_take", "floor_thread_id")


def compiler() -> str:
    return os.environ.get("CXX", "g++")


def _xla_include() -> Path:
    # Use the pinned headers that Callout is built with, because newer headers of jaxlib rename C structs.
    cache = ROOT / ".cache"
    subprocess.run([sys.executable, ROOT / "scripts/fetch_wheel.py", "xla-ffi", cache], check=True)
    return max(cache.glob("xla-ffi-*/include"))


def build(name: str, include: str | Path, out: Path) -> Path:
    library = out / f"lib{name}.so"
    command = [compiler(), "-shared", "-fPIC", "-std=c++20", "-O2", "-I", str(include)]
    subprocess.run([*command, str(HERE / f"{name}.cc"), "-o", str(library)], check=True)
    return library


def build_floor(out: Path) -> Path:
    return build("floor", _xla_include(), out)


def register_floor(library: Path) -> None:
    """Registers the FFI targets `floor_*`."""
    floor = ctypes.CDLL(str(library))
    for handler in HANDLERS:
        jax.ffi.register_ffi_target(handler, jax.ffi.pycapsule(getattr(floor, handler)), platform="cpu")
