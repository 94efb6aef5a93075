# SPDX-License-Identifier: Apache-2.0
"""Programs to export, and functions that bind their names."""

import callout
import jax
import jax.numpy as jnp

F32 = jax.ShapeDtypeStruct((), jnp.float32)


def everything(x):
    """Uses each kind of callback in a chain of values; the ordered ones are also a chain of effects."""
    x = callout.tap("tap.ordered", x, ordered=True, name="first")
    y = callout.pure_callback("call", F32, x)
    z = callout.io_callback("io", F32, y, ordered=True)
    callout.debug_callback("debug", z)
    return callout.tap("tap", z)


NAMES = ("call", "debug", "io", "tap", "tap.ordered")


def bind_everything(bind):
    bind("tap.ordered", "tap", "call", "io")
    bind("debug", returns=lambda value: None)


def loaded(exported):
    return jax.export.deserialize(exported.serialize())


def export_for(f, *args, **kwargs):
    return callout.export(jax.jit(f), **kwargs)(*args)


def main_of(exported):
    return next(line for line in exported.mlir_module().splitlines() if "@main(" in line)


def unordered(x):
    return callout.tap("t", callout.pure_callback("c", jax.ShapeDtypeStruct(x.shape, x.dtype), x))
