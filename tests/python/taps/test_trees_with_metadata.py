# SPDX-License-Identifier: Apache-2.0
"""Values in nodes of the user's whose metadata is an array, which cannot be compared by `==`."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest


class Indexed:
    def __init__(self, value, indices):
        self.value, self.indices = value, indices


jax.tree_util.register_pytree_node(
    Indexed, lambda node: ((node.value,), node.indices), lambda indices, values: Indexed(*values, indices)
)


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit], ids=["eager", "jit"])
def test_such_a_tree_is_tapped_again(received, wrap):
    def f(x):
        for scale in (1, 2):
            callout.tap(lambda node: received.tap(node.value), Indexed(x * scale, np.arange(3)), ordered=True)
        return x

    wrap(f)(jnp.float32(1))
    callout.barrier_wait(timeout=30)
    assert [float(value) for value in received] == [1, 2]


def test_a_call_with_such_a_tree_is_made_again():
    for each in (1.0, 2.0):
        node = Indexed(jnp.float32(each), np.arange(3))
        assert callout.pure_callback(lambda node: node.value, jax.ShapeDtypeStruct((), np.float32), node) == each
