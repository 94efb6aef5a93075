# SPDX-License-Identifier: Apache-2.0
"""jaxlib's LAPACK targets, whose functions are missing until JAX's own linear algebra is lowered."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp


def prepare_target(name: str) -> None:
    """Makes jaxlib's LAPACK functions ready if `name` is one of its targets: a call before that ends the process.

    jaxlib takes the functions from SciPy, all at once, when JAX first lowers an operation of `jnp.linalg` for a CPU.
    """
    if name.startswith("lapack_"):
        _fill_in()


@functools.cache
def _fill_in() -> None:
    """Lowers a Cholesky decomposition, which is the public way to have jaxlib look its functions up."""
    jax.jit(jnp.linalg.cholesky).trace(jax.ShapeDtypeStruct((1, 1), jnp.float32)).lower(lowering_platforms=("cpu",))
