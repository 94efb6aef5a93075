# SPDX-License-Identifier: Apache-2.0
"""Tests callbacks inside a shard_map that leaves some axes to the compiler."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import _jax_compat
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

LIKE = jax.ShapeDtypeStruct((2, 4), jnp.float32)
WHOLE = np.arange(16, dtype=np.float32).reshape(4, 4)


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=str)
def run(request):
    """Runs a function in a shard_map over axis "a"; the compiler shards axis "b"."""
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(request.param,) * 2, devices=platforms.devices(4))
    x = jax.device_put(WHOLE, NamedSharding(mesh, P("a", "b")))

    def run_mapped(fn):
        mapped = jax.shard_map(fn, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False)
        y = jax.jit(mapped)(x)
        jax.effects_barrier()
        callout.barrier_wait(60)
        return y

    run_mapped.axis_type = request.param
    return run_mapped


@pytest.fixture
def heard():
    return []


def by_first(values):
    return sorted((value.tolist() for value in values), key=lambda rows: rows[0][0])


HALVES = [WHOLE[:2].tolist(), WHOLE[2:].tolist()]


@pytest.mark.collectives
def test_taps_and_debug_callbacks_get_the_shards_of_manual_axes(run, heard):
    y = run(lambda v: callout.tap(heard.append, v))
    assert by_first(heard) == HALVES
    assert np.array_equal(y, WHOLE)
    heard.clear()
    run(lambda v: callout.debug_callback(heard.append, v) or v)
    assert by_first(heard) == HALVES


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
def test_another_device_may_send(run, heard):
    run(lambda v: callout.tap(lambda v, device: heard.append(device.id), v, device_index=1, with_device=True))
    assert sorted(heard) == [1, 3]


@pytest.mark.native_only(platforms.DEVICE)
def test_local_ones_are_heard_from_every_device(run, heard):
    if run.axis_type == AxisType.Explicit and _jax_compat.JAX_VERSION < (0, 11) and platforms.on_software_gpu():
        pytest.skip(platforms.COLLECTIVES)  # the result is gathered over axis "b"
    run(lambda v: callout.tap(lambda v, device: heard.append(device.id), v, sharding="local", with_device=True))
    assert sorted(heard) == [0, 1, 2, 3]


@pytest.mark.parametrize("call", [callout.pure_callback, callout.io_callback])
def test_calls_are_refused(run, call):
    with pytest.raises(NotImplementedError, match="needs all mesh axes to be manual; automatic: \\('b',\\)"):
        run(lambda v: call(lambda a: a, LIKE, v))


@pytest.mark.collectives
def test_ordered_ones_need_jax_0_12(run, heard):
    def ordered(v):
        return callout.tap(heard.append, callout.tap(heard.append, v, ordered=True) + 1, ordered=True)

    if _jax_compat.JAX_VERSION < (0, 12):
        with pytest.raises(NotImplementedError, match=r"needs JAX 0\.12 or newer"):
            run(ordered)
        return
    run(ordered)
    assert [value.tolist() for value in heard if value[0, 0] < 8] == [HALVES[0], (WHOLE[:2] + 1).tolist()]
