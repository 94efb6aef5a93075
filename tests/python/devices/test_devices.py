# SPDX-License-Identifier: Apache-2.0
"""Tests jits over several devices (gather, local, shard_map, pmap): which device calls what, and the results."""

import contextlib
import io

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout import _jax_compat
from jax import lax
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from meshes import grid, mesh_of, sharded

ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])


@pytest.fixture
def seen():
    """Returns records of (value, device id, index)."""

    class Seen(list):
        def tap(self, value, device=None, index=None):
            self.append((jax.tree.map(np.ndarray.tolist, value), device and device.id, index))

        def send(self, x, **kwargs):
            return callout.tap(self.tap, x, with_device=True, with_index=True, **kwargs)

    return Seen()


def run(f, *args):
    out = jax.block_until_ready(jax.jit(f)(*args))
    callout.barrier_wait(timeout=60)
    return out


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
@ORDERED
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("reverse", [False, True], ids=["mesh", "reversed"])
def test_gather_taps_the_whole_value_once(seen, ordered, count, reverse):
    x = sharded(count, reverse)
    out = run(lambda v: seen.send(v * 2, ordered=ordered) + 1, x)
    assert seen == [((np.arange(8.0) * 2).tolist(), x.sharding.mesh.devices.flat[0].id, (slice(0, 8),))]
    assert out.sharding.is_equivalent_to(x.sharding, 1), "a tap changes no sharding"


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
@ORDERED
def test_gather_taps_on_the_device_that_was_asked_for(seen, ordered):
    for index in range(4):
        run(lambda v, index=index: seen.send(v, ordered=ordered, device_index=index), sharded(reverse=True))
    assert [device for _, device, _ in seen] == [3, 2, 1, 0]


@pytest.mark.native_only(platforms.SHARDS)
@ORDERED
def test_local_taps_each_shard_with_its_place(seen, ordered):
    run(lambda v: seen.send(v, ordered=ordered, sharding="local"), sharded(reverse=True))
    assert sorted(seen) == sorted(
        [([2.0 * i, 2.0 * i + 1], 3 - i, (slice(2 * i, 2 * i + 2),)) for i in range(4)], key=lambda r: r[0]
    )


@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.collectives
@ORDERED
def test_local_taps_of_a_two_dimensional_mesh(seen, ordered):
    x = grid()
    run(lambda v: seen.send({"x": v, "rows": v.sum(1)}, ordered=ordered, sharding="local"), x)
    assert len(seen) == 4
    whole = np.asarray(x)
    for value, device, index in seen:
        np.testing.assert_array_equal(value["x"], whole[index["x"]])
        np.testing.assert_array_equal(value["rows"], whole.sum(1)[index["rows"]])
        (shard,) = [shard for shard in x.addressable_shards if shard.device.id == device]
        np.testing.assert_array_equal(shard.data, value["x"])


@pytest.mark.native_only(platforms.SHARDS)
@pytest.mark.collectives
def test_local_with_a_value_that_does_not_divide(seen):
    def f(v):
        return seen.send(v[:5] * 1, sharding="local")

    run(f, sharded())
    assert len(seen) == 4
    for value, _, (index,) in seen:
        assert value == list(range(8))[:5][index], "no padding"


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
def test_scalars_and_replicated_values(seen):
    run(lambda v: seen.send(v.sum()), sharded())
    assert seen == [(28.0, 0, ())]
    seen.clear()
    run(lambda v: seen.send(v.sum(), sharding="local"), sharded())
    assert sorted(seen) == [(28.0, device, ()) for device in range(4)]


@pytest.mark.collectives
@ORDERED
def test_control_flow(seen, ordered):
    def send(v):
        return seen.send(v, ordered=ordered)

    run(lambda x: lax.fori_loop(0, 3, lambda _, c: send(c) + 1, x), sharded())
    run(lambda x: lax.while_loop(lambda c: send(c)[0] < 1, lambda c: c + 1, x), sharded())
    run(lambda x: lax.cond(x[0] < 1, send, lambda y: y, x), sharded())
    run(lambda x: lax.scan(lambda c, _: (send(c), None), x, length=2)[0], sharded())
    assert [value[0] for value, _, _ in seen] == [0, 1, 2, 0, 1, 0, 0, 0]
    assert {device for _, device, _ in seen} == {0}


@pytest.mark.collectives
@ORDERED
def test_vmap_and_grad(seen, ordered):
    run(jax.vmap(lambda v: seen.send(v, ordered=ordered) * 2), sharded())
    run(jax.grad(lambda v: jnp.sin(seen.send(v, ordered=ordered)).sum()), sharded())
    assert [value for value, _, _ in seen] == [np.arange(8.0).tolist()] * 2


CALLS = {
    "pure": lambda f, shape, x: callout.pure_callback(f, shape, x),
    "io": lambda f, shape, x: callout.io_callback(f, shape, x),
    "io ordered": lambda f, shape, x: callout.io_callback(f, shape, x, ordered=True),
}


@pytest.mark.native_only("results of JAX's callbacks lie where XLA has them")
@pytest.mark.collectives
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    "make", [sharded, lambda: sharded(2), lambda: sharded(reverse=True)], ids=["4", "2", "reversed"]
)
def test_a_call_happens_once_and_all_devices_get_its_results(call, make):
    calls = []

    def callback(x):
        calls.append(x.tolist())
        return x + 1, x.sum()

    x = make()
    shapes = (jax.ShapeDtypeStruct((8,), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32))
    first, total = run(lambda v: jax.tree.map(lambda r: r * 2, call(callback, shapes, v)), x)
    assert calls == [list(range(8))]
    np.testing.assert_array_equal(first, (np.arange(8) + 1) * 2)
    assert float(total) == 56
    used = run(lambda v: call(callback, shapes, v)[0] * v, x)
    assert used.sharding.is_equivalent_to(x.sharding, 1)


@pytest.mark.collectives
def test_calls_in_loops_and_without_arguments():
    calls = []

    def step(x):
        calls.append(1)
        return x + 1

    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    out = run(lambda x: lax.fori_loop(0, 5, lambda _, c: callout.pure_callback(step, shape, c), x), sharded())
    np.testing.assert_array_equal(out, np.arange(8) + 5)
    assert len(calls) == 5
    out = run(lambda x: callout.io_callback(lambda: np.full(8, 3, np.float32), shape) + x, sharded())
    np.testing.assert_array_equal(out, np.arange(8) + 3)


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
def test_options_and_single_device_shardings_choose_the_device():
    shape = jax.ShapeDtypeStruct((), jnp.int32)

    def errors_name(f):
        with pytest.raises(callout.CallbackError) as caught, callout.reraise():
            run(f, sharded())
        return str(caught.value)

    def bad(_):
        return "no number"

    chosen = callout.options(bad, device_index=2)
    assert "on device 2" in errors_name(lambda v: callout.pure_callback(chosen, shape, v))
    third = SingleDeviceSharding(jax.devices()[3])
    for call in (callout.pure_callback, callout.io_callback):
        assert "on device 3" in errors_name(lambda v, call=call: call(bad, shape, v, sharding=third))


def test_places_that_the_program_does_not_have_are_named(seen):
    with pytest.raises(ValueError, match="device_index=4 is not one of the program's 4 device"):
        run(lambda v: seen.send(v, device_index=4), sharded())
    with pytest.raises(ValueError, match="device_index=1 is not one of the program's 1 device"):
        run(lambda v: seen.send(v, device_index=1), jnp.ones(2))
    far = SingleDeviceSharding(jax.devices()[3])
    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    with pytest.raises(ValueError, match=r"`sharding` names .*, which is not one of the program's devices"):
        run(lambda v: callout.pure_callback(lambda x: x, shape, v, sharding=far), sharded(2))
    in_shard_map = jax.shard_map(
        lambda v: callout.io_callback(lambda x: x, jax.ShapeDtypeStruct((2,), jnp.float32), v, sharding=far),
        mesh=mesh_of(4),
        in_specs=P("d"),
        out_specs=P("d"),
        check_vma=False,
    )
    with pytest.raises(NotImplementedError, match="`sharding` has no meaning inside shard_map"):
        run(in_shard_map, sharded())


@pytest.mark.native_only(platforms.SEVERAL)
@pytest.mark.collectives
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_failure_is_raised_on_every_device_and_nothing_hangs(call):
    def boom(_):
        raise KeyError("on one device")

    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    f = jax.jit(lambda v: call(boom, shape, v).sum() + v.sum())
    for _ in range(3):
        with pytest.raises(KeyError, match="on one device"), callout.reraise():
            jax.block_until_ready(f(sharded()))


@ORDERED
def test_shard_map_and_pmap_call_on_every_device(seen, ordered):
    def f(x):
        y = callout.io_callback(lambda v: v * 10, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=ordered)
        return seen.send(y, ordered=ordered)

    mapped = jax.shard_map(f, mesh=mesh_of(4, reverse=True), in_specs=P("d"), out_specs=P("d"), check_vma=False)
    np.testing.assert_array_equal(run(mapped, sharded(reverse=True)), np.arange(8) * 10)
    assert sorted((value, device) for value, device, _ in seen) == [
        ([20.0 * i, 20.0 * i + 10], 3 - i) for i in range(4)
    ]
    seen.clear()
    np.testing.assert_array_equal(jax.pmap(f, devices=jax.devices()[3::-1])(jnp.arange(4.0)), np.arange(4) * 10)
    callout.barrier_wait()
    assert sorted((value, device) for value, device, _ in seen) == [(10.0 * i, 3 - i) for i in range(4)]


def over_one_axis(f):
    mesh = grid().sharding.mesh
    return jax.shard_map(f, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False)


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
def test_shard_map_that_leaves_an_axis_to_the_compiler(seen):
    run(over_one_axis(lambda v: seen.send(v) + 1), grid())
    assert sorted((np.shape(value), device) for value, device, _ in seen) == [((2, 4), 1), ((2, 4), 3)]
    seen.clear()
    run(over_one_axis(lambda v: seen.send(v, sharding="local") + 1), grid())
    assert sorted((np.shape(value), device) for value, device, _ in seen) == [((2, 2), i) for i in range(4)]
    shown = []
    run(over_one_axis(lambda v: (callout.debug_callback(lambda x: shown.append(x.shape), v), v)[1]), grid())
    assert shown == [(2, 4), (2, 4)]


def test_calls_with_an_axis_of_the_compiler_are_rejected():
    shape = jax.ShapeDtypeStruct((2, 4), jnp.float32)
    with pytest.raises(NotImplementedError, match=r"needs all mesh axes to be manual; automatic: \('b',\)"):
        run(over_one_axis(lambda v: callout.pure_callback(lambda x: x, shape, v)), grid())


@pytest.mark.native_only("JAX has no ordered callback there")
@pytest.mark.collectives
@pytest.mark.parametrize("sharding", ["gather", "local"])
def test_ordered_taps_with_an_axis_of_the_compiler(seen, sharding):
    f = over_one_axis(lambda v: seen.send(v, ordered=True, sharding=sharding) + 1)
    if _jax_compat.JAX_VERSION < (0, 12):  # XLA would crash
        with pytest.raises(NotImplementedError, match=r"needs JAX 0\.12 or newer"):
            run(f, grid())
    else:
        run(f, grid())
        assert len(seen) == (2 if sharding == "gather" else 4)


@pytest.mark.collectives
@pytest.mark.devices(4)
def test_explicit_sharding(seen):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("d")))
    out = run(lambda v: seen.send(v * 2), x)
    assert jax.typeof(out).sharding.spec == P("d")
    run(lambda v: seen.send(v, sharding="local"), x)
    assert sorted(value for value, _, _ in seen) == sorted(
        [(np.arange(8.0) * 2).tolist(), [0, 1], [2, 3], [4, 5], [6, 7]]
    )


@pytest.mark.parametrize(
    "entry", ["tap", "pure_callback", "io_callback", "debug_callback", "id_tap", "call", "id_print"]
)
def test_eager_callbacks_refuse_a_device_that_there_is_not(entry, received):
    at = {device: callout.options(lambda v, *_: received.append(v) or v, device_index=device) for device in (3, 4)}
    like = jax.ShapeDtypeStruct((8,), jnp.float32)
    calls = {
        "tap": lambda v, n: callout.tap(at[n], v),
        "pure_callback": lambda v, n: callout.pure_callback(at[n], like, v),
        "io_callback": lambda v, n: callout.io_callback(at[n], like, v),
        "debug_callback": lambda v, n: callout.debug_callback(at[n], v),
        "id_tap": lambda v, n: hcb.id_tap(at[n], v, device_index=n),
        "call": lambda v, n: hcb.call(at[n], v, result_shape=v, device_index=n),
        "id_print": lambda v, n: hcb.id_print(v, device_index=n, output_stream=io.StringIO()),
    }
    x = sharded()
    calls[entry](x, 3)
    for run in (lambda f: f(x), lambda f: jax.jit(f)(x)):
        with pytest.raises(ValueError, match=r"device_index=4.* is not one of the .*4 device\(s\)"):
            run(lambda v: calls[entry](v, 4))
    with pytest.raises(
        ValueError, match=r"^callout: device_index=3 of '.*' is not one of the 1 device\(s\) of its value$"
    ):
        calls[entry](jnp.ones(8), 3)
    hcb.barrier_wait()


def test_eager_taps_of_sharded_arrays(seen):
    x = sharded(reverse=True)
    seen.send(x, device_index=1)
    callout.barrier_wait()
    assert seen == [(np.arange(8.0).tolist(), 2, (slice(0, 8),))]
    seen.clear()
    seen.send(x, sharding="local")
    callout.barrier_wait()
    assert sorted(seen) == sorted([([2.0 * i, 2.0 * i + 1], 3 - i, (slice(2 * i, 2 * i + 2),)) for i in range(4)])


@pytest.mark.native_only(platforms.SEVERAL)
@pytest.mark.collectives
def test_a_failing_queue_policy_fails_on_every_device(small_queue):
    """The queue that is full is the owner's; the other devices must not wait for the owner in the next collective."""
    import threading

    go = threading.Event()

    def slow(_):
        go.wait(60)

    big = jax.device_put(jnp.zeros(1_000_000), NamedSharding(mesh_of(4), P("d")))
    f = jax.jit(lambda v: callout.tap(slow, v, on_full="fail").sum())

    def fill():
        for _ in range(20):
            jax.block_until_ready(f(big))

    try:
        with pytest.raises(Exception, match='on_full="fail"'):
            fill()
    finally:
        go.set()
    callout.barrier_wait(timeout=60)
    with contextlib.suppress(Exception):  # JAX may raise the caller's error again
        jax.effects_barrier()


@pytest.mark.native_only("JAX collects the values")
@pytest.mark.collectives
def test_large_gathers_are_reported_once(caplog):
    big = jax.device_put(jnp.zeros(17_000_000), NamedSharding(mesh_of(2), P("d")))
    f = lambda v: callout.tap(callout.sinks.Null(), v, name="too large")  # noqa: E731
    run(f, big)
    run(lambda v: f(v) + 1, big)
    reports = [record.getMessage() for record in caplog.records if "too large" in record.getMessage()]
    assert len(reports) == 1
    assert "collects 68 MB" in reports[0]
    assert 'sharding="local"' in reports[0]


@pytest.mark.native_only("it needs none")
def test_without_the_partitioner_shard_map_is_pointed_to(monkeypatch, seen):
    monkeypatch.setattr(_jax_compat, "has_partitioner", lambda: False)
    with pytest.raises(NotImplementedError, match=r"needs an entry point that this jaxlib does not have; .*shard_map"):
        run(lambda v: seen.send(v), sharded())
    run(lambda v: seen.send(v), jnp.ones(()))
    assert seen == [(1.0, 0, ())]
