# SPDX-License-Identifier: Apache-2.0
"""Tests callout.ffi in a jit over several devices."""

import logging

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import ffi
from callout._targets.partitioning import foreign_partitioning
from ffi_calls import F3, affine

pytestmark = pytest.mark.usefixtures("handlers")


@pytest.fixture
def spread():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))
    return mesh, jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("d")))


@pytest.mark.parametrize(("sharding", "spec"), [(None, None), ("gather", None), ("local", "d")])
def test_several_devices(spread, caplog, sharding, spec):
    foreign_partitioning._warned.clear()
    mesh, x = spread
    with caplog.at_level(logging.WARNING, "callout"):
        out = jax.jit(lambda v: affine(v, sharding=sharding))(x)
    assert out.tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    assert out.sharding.is_equivalent_to(jax.NamedSharding(mesh, jax.P(spec)), 1)
    assert ("collects its sharded arguments" in caplog.text) == (sharding is None)


def test_a_sharding_rule(handlers):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    x = jax.device_put(jnp.arange(32.0).reshape(4, 8), jax.NamedSharding(mesh, jax.P("a", "b")))

    def row_sums(v, **settings):
        result = jax.ShapeDtypeStruct(v.shape[:1], jnp.float32)
        return ffi.ffi_call("test.row_sums", result, **settings)(v)

    call = jax.jit(lambda v: row_sums(v, sharding_rule="i j -> i"))
    handlers.largest_rows_seen(-1)
    out = call(x)
    np.testing.assert_array_equal(out, np.asarray(x).sum(axis=1))
    assert out.sharding.is_equivalent_to(jax.NamedSharding(mesh, jax.P("a")), 1)
    assert handlers.largest_rows_seen(0) == 2, "each device has its rows only, and all of their columns"
    assert row_sums(jnp.ones((2, 3)), sharding_rule="i j -> i").tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"\(ranks \[2\] and \[1\]\), as in .*; got 'i, j -> i'"):
        row_sums(jnp.ones((2, 3)), sharding_rule="i, j -> i")
    for vmapped in (jax.vmap(call), jax.jit(jax.vmap(lambda v: row_sums(v, sharding_rule="i j -> i")))):
        with pytest.raises(
            NotImplementedError,
            match=r"row_sums': a call with sharding_rule='i j -> i' has no vmap: call it on the whole",
        ):
            vmapped(jnp.ones((2, 2, 3)))
    with pytest.raises(ValueError, match="sharding_rule is for sharding='local', got 'gather'"):
        row_sums(jnp.ones((2, 3)), sharding="gather", sharding_rule="i j -> i")


def test_several_devices_can_be_refused(spread):
    mesh, x = spread
    with pytest.raises(NotImplementedError, match="in a jit over 4 devices, and sharding='error'"):
        jax.jit(lambda v: affine(v, sharding="error"))(x)
    with pytest.raises(NotImplementedError, match="is for calls with row-major arrays, no aliases and typed FFI"):
        ffi.ffi_call("test.add_one", F3, input_output_aliases={0: 0}, sharding="local")(jnp.ones(3))
    with pytest.raises(ValueError, match="sharding must be one of"):
        affine(x, sharding="all")
    inside = jax.shard_map(lambda v: affine(v, sharding="error"), mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    assert jax.jit(inside)(x).tolist() == [1, 3, 5, 7, 9, 11, 13, 15]


def test_a_side_effect_on_several_devices_happens_once(spread, handlers):
    _, x = spread
    before = handlers.noted()
    jax.jit(lambda v: (ffi.ffi_call("test.note", (), has_side_effect=True)(v), v + 1)[1])(x).block_until_ready()
    jax.effects_barrier()
    assert handlers.noted() == before + 8


def test_other_targets_are_left_to_xla(spread):
    _, x = spread
    ffi.register_ffi_target_as_batch_partitionable("test.in_memory")
    call = jax.jit(ffi.ffi_call("test.in_memory", jax.ShapeDtypeStruct((8,), jnp.float32)))
    assert call(x).tolist() == x.tolist()
    assert "callout_partition" not in call.lower(x).as_text()
    assert (
        "callout_partition"
        not in jax.jit(ffi.ffi_call("test.in_memory", jax.ShapeDtypeStruct((8,), jnp.float32))).lower(x).as_text()
    )


def test_an_exported_program_needs_no_disabled_checks():
    x = jnp.arange(3.0)
    program = jax.export.deserialize(callout.export(jax.jit(affine))(x).serialize())
    assert program.call(x).tolist() == [1, 3, 5]
    assert callout.exported_names(program) == ()


def test_calls_of_others_are_left_alone(spread):
    mesh, x = spread
    affine(x, sharding="gather")
    jax.jit(lambda v: affine(v, sharding="gather"))(x).block_until_ready()
    theirs = jax.ffi.ffi_call("test.affine", jax.ShapeDtypeStruct((8,), jnp.float32))
    assert jax.jit(lambda v: theirs(v, a=np.float32(2), b=np.int64(1)))(x).tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    rows = jax.device_put(jnp.arange(16.0).reshape(8, 2), jax.NamedSharding(mesh, jax.P("d")))
    columns = ffi.ffi_call("test.in_memory", jax.ShapeDtypeStruct((8, 2), jnp.float32), input_layouts=[(1, 0)])
    np.testing.assert_array_equal(np.ravel(jax.jit(columns)(rows)), np.asarray(rows).T.ravel())


def test_attributes_do_not_steer_the_partitioner(spread, handlers):
    _, x = spread
    before = handlers.noted()
    ffi.register_ffi_target("test.note_with", ffi.pycapsule(handlers.note_with))
    call = ffi.ffi_call("test.note_with", (), has_side_effect=True)
    jax.jit(lambda v: (call(v, device_index=np.int64(5), sharding="local"), v + 1)[1])(x).block_until_ready()
    jax.effects_barrier()
    assert handlers.noted() == before + 8


def test_arguments_of_one_shape_are_spread_alike(spread, handlers):
    mesh, x = spread
    whole = jax.device_put(jnp.ones(8), jax.NamedSharding(mesh, jax.P()))
    ffi.register_ffi_target("test.add", ffi.pycapsule(handlers.add))
    add = jax.jit(ffi.ffi_call("test.add", jax.ShapeDtypeStruct((8,), jnp.float32), sharding="local"))
    for one, other in ((x, whole), (whole, x)):
        assert add(one, other).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
