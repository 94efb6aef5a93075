# SPDX-License-Identifier: Apache-2.0
"""Tests the names of public modules, and the modules that are callable."""

import importlib
import io
import types

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest

NAMES = [
    "callout",
    *(f"callout.{name}" for name in ("buffer_callback", "cpp", "cuda", "doctor", "ffi", "host", "host_callback")),
    *(f"callout.{name}" for name in ("numba", "numba_cuda", "progress", "sinks")),
]


@pytest.mark.parametrize("name", NAMES)
def test_dir_has_only_the_modules_own_names(name):
    module = importlib.import_module(name)
    offered = {each for each in dir(module) if not each.startswith("_")}
    offered.discard("doctor")  # a command, which another test may have imported
    assert offered == set(module.__all__)
    modules = [each for each in offered if isinstance(getattr(module, each), types.ModuleType)]
    assert {f"callout.{each}" for each in modules} <= set(NAMES)


def test_every_public_module_is_checked():
    assert {f"callout.{name}" for name in callout._MODULES} <= set(NAMES)


def test_the_module_of_progress_is_called_as_its_function():
    file = io.StringIO()

    @callout.progress(desc="fit", file=file)
    def body(i, x):
        return x + 1.0

    assert float(jax.jit(lambda x: jax.lax.fori_loop(0, 3, body, x))(0.0)) == 3
    callout.barrier_wait()
    assert "fit" in file.getvalue()


@pytest.mark.native_only(platforms.BUFFERS)
@pytest.mark.cpu_only("it reads the memory on the host")
def test_the_module_of_buffer_callbacks_is_called_as_its_function():
    def add_one(ctx, out, x):
        np.asarray(out)[...] = np.asarray(x) + 1

    call = callout.buffer_callback(add_one, jax.ShapeDtypeStruct((3,), jnp.float32))
    assert jax.jit(call)(jnp.zeros(3)).tolist() == [1, 1, 1]
