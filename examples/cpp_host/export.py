# SPDX-License-Identifier: Apache-2.0
"""Exports a training loop whose callbacks are names, for a PJRT plugin: python export.py PROGRAM PLUGIN."""

import sys
from pathlib import Path

import callout
import jax
import jax.numpy as jnp

SCALAR = jax.ShapeDtypeStruct((), jnp.float32)
TARGET = jnp.array([1.0, 2.0, 3.0, 4.0])


def loss(w: jax.Array) -> jax.Array:
    return ((w - TARGET) ** 2).mean()


@jax.jit
def train(w: jax.Array) -> jax.Array:
    def step(i: jax.Array, w: jax.Array) -> jax.Array:
        rate = callout.pure_callback("learning_rate", SCALAR, i)  # the host that runs the program binds the names
        value, gradient = jax.value_and_grad(loss)(w)
        callout.tap("loss", value)
        return w - rate * gradient

    return jax.lax.fori_loop(0, 20, step, w)


def main(program: str, plugin: str) -> None:
    exported = callout.export(train, for_plugin=plugin)(jax.ShapeDtypeStruct((4,), jnp.float32))
    Path(program).write_bytes(exported.mlir_module_serialized)
    sys.stdout.write(f"{program} needs {', '.join(callout.exported_names(exported))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
