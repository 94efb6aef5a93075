# SPDX-License-Identifier: Apache-2.0
"""Tests values in trees with unusual equality: with an array as metadata, which has no `==`, or with keys 1 and True."""

import callout
import callout.host_callback
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


@pytest.mark.parametrize("kind", ["call", "tap", "id_print", "host_callback.call"])
def test_programs_with_keys_that_are_equal_have_their_own(kind):
    seen = []
    like = jax.ShapeDtypeStruct((), np.float32)

    def see(tree):
        seen.extend(map(str, tree))
        return like.dtype.type(0)

    class Lines:
        def write(self, text):
            seen.append(text.split()[1].split("=")[0])

    def program(key, stream):
        def f(x):
            if kind == "call":
                return callout.pure_callback(see, like, {key: x})
            if kind == "host_callback.call":
                return callout.host_callback.call(see, {key: x}, result_shape=like)
            if kind == "tap":
                return callout.tap(see, {key: x})[key]
            return callout.host_callback.id_print({key: x}, output_stream=stream)[key]

        return jax.jit(f)

    stream, x = Lines(), jnp.float32(1)
    programs = [program(key, stream) for key in (1, True, 1.0)]  # all programs live at once
    for one in programs:
        one(x).block_until_ready()
        callout.barrier_wait(timeout=30)
    assert [text for text in seen if text] == ["1", "True", "1.0"]
