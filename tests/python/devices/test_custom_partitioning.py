# SPDX-License-Identifier: Apache-2.0
"""Tests callbacks in functions that JAX lowers separately: custom_partitioning's rules, shards and composites."""

import gc

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import sinks
from callout.buffer_callback import buffer_callback
from jax.experimental.custom_partitioning import custom_partitioning
from meshes import sharded

CPUS = pytest.mark.cpu_only("XLA's partitioner has been asked for shards of CPUs alone")
NATIVE = pytest.mark.native_only("JAX's callbacks in the function of a partition rule end the process")

SHARDS = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]


class Host:
    """Records the arguments of callbacks."""

    def __init__(self):
        self.heard = []

    def note(self, value):
        self.heard.append(np.asarray(value).tolist())

    def same(self, value):
        self.note(value)
        return np.asarray(value)

    def fill(self, _, out, value):
        self.note(value)
        np.asarray(out)[...] = np.asarray(value)


@pytest.fixture
def host():
    return Host()


def on_shards(function):
    """Returns an operation whose partition rule returns `function` for each shard."""

    @custom_partitioning
    def operation(v):
        return v * 2

    def partition(mesh, args, _):
        return mesh, function, args[0].sharding, (args[0].sharding,)

    operation.def_partition(
        infer_sharding_from_operands=lambda _mesh, args, _result: args[0].sharding,
        partition=partition,
        sharding_rule="i -> i",
    )
    return operation


def after(function):
    """Returns a callback that calls `function` and returns its argument."""

    def call(host, v):
        function(host, v)
        return v

    return call


def like(v):
    return jax.ShapeDtypeStruct(v.shape, v.dtype)


KINDS = {
    "tap": lambda host, v: callout.tap(host.note, v),
    "sink": lambda host, v: callout.tap(sinks.Function(host.note), v),
    "debug_callback": after(lambda host, v: callout.debug_callback(host.note, v)),
    "pure_callback": lambda host, v: callout.pure_callback(host.same, like(v), v),
    "io_callback": lambda host, v: callout.io_callback(host.same, like(v), v),
    "buffer_callback": lambda host, v: buffer_callback(host.fill, like(v))(v),
}


@CPUS
@NATIVE
@pytest.mark.parametrize("kind", KINDS)
def test_callbacks_of_a_partition_rule_get_the_shards(host, kind):
    f = jax.jit(on_shards(lambda v: KINDS[kind](host, v) * 2))
    for _ in range(2):
        host.heard.clear()
        assert f(sharded()).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
        jax.effects_barrier()
        callout.barrier_wait(timeout=60)
        assert sorted(host.heard) == SHARDS
        gc.collect()


REFUSED = (
    "ordered=True inside of jax.lax.composite, or of the function that custom_partitioning has for each shard: JAX lowers "
    "these functions without the token that keeps the order. Use ordered=False there, or call it outside"
)


@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("callout.tap 'note'", lambda note, v: callout.tap(note, v, ordered=True)),
        ("callout.debug_callback 'note'", after(lambda note, v: callout.debug_callback(note, v, ordered=True))),
        ("callout.io_callback 'note'", lambda note, v: callout.io_callback(note, like(v), v, ordered=True)),
        ("callout.tap 'note'", lambda note, v: jax.lax.map(lambda x: callout.tap(note, x, ordered=True), v)),
    ],
)
def test_ordered_callbacks_without_a_token_are_rejected_by_name(where, call):
    note = callout.options(lambda v: v, name="note")
    with pytest.raises(NotImplementedError) as error:
        jax.jit(jax.lax.composite(lambda v: call(note, v) * 2, "callout.test"))(jnp.ones(3))
    assert str(error.value) == f"{where}: {REFUSED}"


@CPUS
@NATIVE
def test_ordered_callbacks_of_a_partition_rule_are_rejected():
    note = callout.options(lambda _: None, name="note")
    with pytest.raises(jax.errors.JaxRuntimeError, match="'note': ordered=True inside of jax"):
        jax.jit(on_shards(lambda v: callout.tap(note, v, ordered=True)))(sharded())


@CPUS
def test_partition_rules_with_jax_callbacks_are_rejected_by_name(host):
    before = callout.config.fallback
    callout.config.fallback = "always"
    try:
        with pytest.raises(
            jax.errors.JaxRuntimeError, match="has for each shard, a callback needs callout's native path"
        ):
            jax.jit(on_shards(lambda v: callout.pure_callback(host.same, like(v), v)))(sharded())
    finally:
        callout.config.fallback = before
    assert not host.heard
