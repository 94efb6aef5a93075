# SPDX-License-Identifier: Apache-2.0
"""Programs in whose derivatives NaN and infinities begin; see planted_nans.py."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from planted_nans import Plant, plant

BACKWARD: list[Plant] = []
in_backward = functools.partial(plant, into=BACKWARD)


@in_backward(1, 0, "infinity")
def root_of_square(x):
    squares = x * x
    return jnp.sqrt(squares)  # HERE


@in_backward(1, 0, "infinity")
def norm(x):
    y = x * 1
    return jnp.linalg.norm(y)  # HERE


@in_backward(1, 0, "infinity")
def masked_division(x):
    return jnp.where(x == 0, 0.0, x * x / x)  # HERE


@in_backward(0.5, 1, "infinity")
def arc_cosine(x):
    return jnp.arccos(x)  # HERE


@in_backward(1, 0, "infinity")
def fractional_power(x):
    return x**0.5  # HERE


@in_backward(2, 0, passes="backward")
def in_rule(x):
    @jax.custom_vjp
    def inner(y):
        return y * 2

    def backward(y, c):
        scale = jnp.log(y - 1)  # HERE
        return (c * scale,)

    inner.defvjp(lambda y: (inner(y), y), backward)
    return inner(x)


@in_backward(2, 0)
def in_rule_of_tangents(x):
    @jax.custom_jvp
    def inner(y):
        return y * 2

    @inner.defjvp
    def _(primals, tangents):
        scale = jnp.log(primals[0] - 1)  # HERE
        return inner(*primals), tangents[0] * scale

    return inner(x)


@in_backward(1, 0, "infinity")
def in_backward_scan(x):
    def step(carry, _):
        carry = carry * 0.5
        return carry, jnp.sqrt(carry * carry)  # HERE

    return jax.lax.scan(step, x, None, length=3)[1].sum()


@in_backward(1, 0, passes="backward")
def in_rematerialised(x):
    @jax.checkpoint
    def inner(y):
        z = jnp.sin(y)
        return jnp.sqrt(z * z)  # HERE

    return inner(x)


@in_backward(1, 0, "infinity")
def in_backward_cond(x):
    return jax.lax.cond(
        x[0] < 9,
        lambda y: jnp.sqrt(y * y),  # HERE
        lambda y: y,
        x,
    )


@in_backward(1, 0, "infinity")
def in_backward_vmap(x):
    def inner(y):
        return jnp.sqrt(y * y)  # HERE

    return jax.vmap(inner)(x)


def backward(values: list[Any]) -> Any:
    """Runs all programs of BACKWARD."""
    return sum(jnp.sum(each.function(x)) for each, x in zip(BACKWARD, values, strict=True))
