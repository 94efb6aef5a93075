# SPDX-License-Identifier: Apache-2.0
"""Writes the model for http_server, for batches of several sizes: python export.py PROGRAM PLUGIN."""

import sys
from pathlib import Path

import callout
import jax
import jax.numpy as jnp
from model import BATCHES, FEATURES, make_scores


def variance_of(users: jax.Array) -> jax.Array:
    return callout.pure_callback("variance", jax.ShapeDtypeStruct(users.shape, jnp.float32), users)


def main(program: str, plugin: str) -> None:
    (batch,) = jax.export.symbolic_shape("b")
    scores = jax.jit(make_scores(variance_of, lambda result: callout.tap("scores", result)))
    exported = callout.export(scores, for_plugin=plugin, shapes=[{"b": size} for size in BATCHES])(
        jax.ShapeDtypeStruct((batch, FEATURES), jnp.float32), jax.ShapeDtypeStruct((batch,), jnp.int32)
    )
    Path(program).write_bytes(exported.serialize())


if __name__ == "__main__":
    main(*sys.argv[1:])
