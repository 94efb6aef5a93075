# SPDX-License-Identifier: Apache-2.0
"""Tests callbacks that only a custom rule has, in a branch that some lanes of a `vmap` take: see docs/taps.md."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest

VALUES = jnp.array([0.5, 3.0, -1.0, 6.0, 2.0])


def with_jvp(tap):
    function = jax.custom_jvp(jnp.square)
    function.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * tap(primals[0]) * tangents[0]))
    return function


def with_vjp(tap):
    function = jax.custom_vjp(jnp.square)
    function.defvjp(lambda x: (x**2, x), lambda x, cotangent: (2 * tap(x) * cotangent,))
    return function


@pytest.mark.parametrize("ruled", [with_jvp, with_vjp])
def test_they_get_all_lanes_of_a_vmap_inside_of_grad(ruled):
    """JAX traces the rule after the `vmap`."""
    seen = []

    def f(x):
        return jax.lax.cond(x > 1, ruled(lambda x: callout.tap(lambda v: seen.append(v.tolist()), x)), lambda x: x, x)

    def gradients(of_all):
        seen.clear()
        np.testing.assert_array_equal(jax.jit(of_all)(VALUES), np.where(VALUES > 1, 2 * VALUES, 1))
        callout.barrier_wait()
        return sorted(seen)

    assert gradients(jax.vmap(jax.grad(f))) == [2, 3, 6]
    assert gradients(jax.grad(lambda values: jax.vmap(f)(values).sum())) == [VALUES.tolist()]
