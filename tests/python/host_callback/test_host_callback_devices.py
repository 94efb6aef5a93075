# SPDX-License-Identifier: Apache-2.0
"""Tests host_callback over several devices: the function that is called, its arguments, and the results."""

import callout
import callout.host_callback as hcb
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

COUNTS = pytest.mark.parametrize("count", [1, 2, 4, 8])


@pytest.fixture
def seen():
    """Returns records of (value, device)."""

    class Seen(list):
        def tap(self, value, transforms, *, device):
            self.append((np.asarray(value).tolist(), device, transforms))

        def take(self):
            hcb.barrier_wait()
            taken = [(value, device) for value, device, _ in self]
            self.clear()
            return taken

    return Seen()


def mesh_of(count, reverse=False):
    devices = platforms.devices(count)
    return Mesh(np.array(devices[::-1] if reverse else devices), ("d",))


def sharded(mesh, size=8):
    return jax.device_put(jnp.arange(float(size)), NamedSharding(mesh, P("d")))


def transformed(name, tap):
    """Returns a program of one operand that taps it, and the number of taps."""

    def grad(x):
        return jax.grad(lambda v: (tap(v) ** 2).sum())(x)

    return {
        "plain": (tap, 1),
        "grad": (grad, 1),
        "vmap": (jax.vmap(tap), 1),
        "remat": (jax.grad(lambda v: (jnp.sin(jax.checkpoint(lambda w: tap(w) ** 2)(v))).sum()), 2),
        "scan": (lambda x: jax.lax.scan(lambda c, _: (tap(c), None), x, length=3)[0], 3),
        "while": (lambda x: jax.lax.while_loop(lambda c: (tap(c) < 8).all(), lambda c: c + 8, x), 2),
        "cond": (lambda x: jax.lax.cond(x.sum() >= 0, tap, lambda v: v, x), 1),
    }[name]


NAMES = ["plain", "grad", "vmap", "remat", "scan", "while", "cond"]


@pytest.mark.collectives
@COUNTS
@pytest.mark.parametrize("name", NAMES)
def test_jit_over_sharded_operands_taps_the_whole_on_one_device(seen, count, name):
    program, times = transformed(name, lambda v: hcb.id_tap(seen.tap, v, tap_with_device=True, device_index=count - 1))
    mesh = mesh_of(count, reverse=True)
    x = sharded(mesh)
    jax.block_until_ready(jax.jit(program)(x))
    taken = seen.take()
    assert len(taken) == times
    assert {device for _, device in taken} == {list(mesh.devices.flat)[count - 1]}
    assert taken[0][0] == list(range(8))


@COUNTS
@pytest.mark.parametrize("name", NAMES)
def test_shard_map_taps_every_shard_on_its_device(seen, count, name):
    program, times = transformed(name, lambda v: hcb.id_tap(seen.tap, v, tap_with_device=True))
    mesh = mesh_of(count)
    spread = jax.shard_map(program, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    jax.block_until_ready(jax.jit(spread)(sharded(mesh)))
    taken = seen.take()
    size = 8 // count
    for i, device in enumerate(mesh.devices.flat):
        own = [value for value, on in taken if on == device]
        assert len(own) == times
        assert own[0] == list(range(size * i, size * (i + 1)))


@pytest.mark.devices(2)
@COUNTS
def test_pmap_taps_every_device_in_its_order(seen, count):
    def f(x):
        x = hcb.id_tap(seen.tap, x, tap_with_device=True)
        return hcb.id_tap(seen.tap, 10 * x, tap_with_device=True)

    devices = platforms.devices(count)
    out = jax.pmap(f, devices=devices)(jnp.arange(1.0, count + 1))
    assert out.tolist() == [10.0 * i for i in range(1, count + 1)]
    taken = seen.take()
    for i, device in enumerate(devices):
        assert [value for value, on in taken if on == device] == [i + 1, 10 * (i + 1)]


@pytest.mark.devices(2)
@COUNTS
def test_pmap_calls_every_device(count):
    got = []

    def host_sin(x, *, device):
        got.append((device, x.shape))
        return np.sin(x)

    devices = platforms.devices(count)
    f = jax.pmap(lambda x: hcb.call(host_sin, x, result_shape=x, call_with_device=True), devices=devices)
    x = jnp.arange(4.0 * count, dtype=jnp.float32).reshape(count, 4)
    np.testing.assert_allclose(f(x), np.sin(x), rtol=1e-6)
    assert sorted((device.id, shape) for device, shape in got) == [(device.id, (4,)) for device in devices]
    hcb.barrier_wait()


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("index", [0, 1])
def test_jit_over_sharded_operands_calls_one_device(count, index):
    got = []

    def host(x, *, device):
        got.append((device, x.tolist()))
        return x[::-1] * 2

    mesh = mesh_of(count)
    x = sharded(mesh)

    @jax.jit
    def f(v):
        out = hcb.call(host, v, result_shape=v, call_with_device=True, device_index=index)
        return jax.lax.with_sharding_constraint(out + 1, x.sharding)

    out = f(x)
    assert out.tolist() == [2.0 * i + 1 for i in range(7, -1, -1)]
    assert out.sharding == x.sharding
    assert got == [(list(mesh.devices.flat)[index], list(range(8)))]
    hcb.barrier_wait()


@pytest.mark.native_only(platforms.SEVERAL)
@pytest.mark.collectives
def test_failing_calls_over_devices_fail_once_and_the_next_works():
    def host(x):
        if x[0] == 1:
            raise KeyError("one")
        return x

    f = jax.jit(lambda v: hcb.call(host, v, result_shape=v) + 1)
    x = sharded(mesh_of(4))
    with pytest.raises(RuntimeError, match="KeyError"):
        jax.block_until_ready(f(x + 1))
    assert f(x).tolist() == [i + 1.0 for i in range(8)]
    with pytest.raises(hcb.CallbackException, match="KeyError: 'one'"):
        hcb.barrier_wait()
    hcb.barrier_wait()


def test_the_device_index_is_one_of_the_programs(seen):
    x = sharded(mesh_of(2))
    with pytest.raises(ValueError, match="device_index"):
        jax.jit(lambda v: hcb.id_tap(seen.tap, v, device_index=2))(x)
    with pytest.raises(ValueError, match="device_index"):
        jax.jit(lambda v: hcb.call(lambda a: a, v, result_shape=v, device_index=2))(x)


@pytest.mark.devices(2)
def test_prints_name_their_devices(capsys):
    devices = jax.devices()[:2]
    f = jax.pmap(lambda x: hcb.id_print((x, x * x), what="x,x^2", tap_with_device=True), devices=devices)
    f(jnp.array([3.0, 4.0]))
    hcb.barrier_wait()
    lines = capsys.readouterr().out.splitlines()
    prints = set(zip(lines[0::2], lines[1::2], strict=True))
    assert prints == {
        (f"device: {devices[0]} what: x,x^2", "( 3. 9. )"),
        (f"device: {devices[1]} what: x,x^2", "( 4. 16. )"),
    }


@pytest.mark.collectives
@pytest.mark.devices(2)
def test_a_jit_around_a_pmap_is_one_program(seen):
    def f(x):
        x = hcb.id_tap(seen.tap, x, tap_with_device=True)
        return jax.pmap(lambda v: hcb.id_tap(seen.tap, v + 1, tap_with_device=True), devices=jax.devices()[:2])(x)

    out = jax.jit(f)(jnp.array([1.0, 2.0]))
    assert out.tolist() == [2, 3]
    taken = seen.take()
    assert ([1.0, 2.0], jax.devices()[0]) in taken
    assert sorted(value for value, _ in taken if not isinstance(value, list)) == [2, 3]


@pytest.mark.native_only(platforms.DEVICE)
@pytest.mark.collectives
@pytest.mark.parametrize("wrap", [lambda f: f, callout.threaded], ids=["effects", "threaded"])
@pytest.mark.parametrize("inside", ["tap", "call"])
@pytest.mark.parametrize("after", ["tap", "call"])
def test_after_a_region_of_shards_the_whole_is_one_again(seen, wrap, inside, after):
    mesh = mesh_of(4)
    x = sharded(mesh)

    def host(value, *, device):
        seen.tap(value, (), device=device)
        return value

    def tap(v, index=0):
        return hcb.id_tap(seen.tap, v, tap_with_device=True, device_index=index)

    def call(v, index=0):
        return hcb.call(host, v, result_shape=v, call_with_device=True, device_index=index)

    first, second = {"tap": tap, "call": call}[inside], {"tap": tap, "call": call}[after]
    spread = jax.shard_map(lambda v: first(2 * v), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    out = jax.jit(wrap(lambda v: second(spread(v), 2) + 1))(x)
    assert out.tolist() == [2.0 * i + 1 for i in range(8)]
    taken = seen.take()
    assert ([2.0 * i for i in range(8)], list(mesh.devices.flat)[2]) in taken
    assert len(taken) == 5


@pytest.mark.native_only("results of JAX's callbacks lie on one device")
@pytest.mark.collectives
@pytest.mark.devices(2)
def test_a_call_after_a_pmap_gets_the_whole(seen):
    def host(value, *, device):
        seen.tap(value, (), device=device)
        return np.float32(value.sum())

    def f(x):
        doubled = jax.pmap(lambda v: hcb.id_tap(seen.tap, 2 * v, tap_with_device=True), devices=jax.devices()[:4])(x)
        return hcb.call(host, doubled, result_shape=1.0, call_with_device=True)

    assert jax.jit(f)(jnp.arange(4.0)) == 12
    assert ([0.0, 2.0, 4.0, 6.0], jax.devices()[0]) in seen.take()


def test_vmap_inside_shard_map_has_descriptors(seen):
    mesh = mesh_of(2)
    f = jax.shard_map(
        jax.vmap(lambda v: hcb.id_tap(seen.tap, v, tap_with_device=True)), mesh=mesh, in_specs=P("d"), out_specs=P("d")
    )
    jax.block_until_ready(jax.jit(f)(sharded(mesh)))
    hcb.barrier_wait()
    assert [transforms for *_, transforms in seen] == [(("batch", {"batch_dims": (0,)}),)] * 2


@pytest.mark.collectives
@pytest.mark.parametrize("count", [2, 4])
def test_threaded_programs_over_devices(seen, count):
    mesh = mesh_of(count)

    @callout.threaded
    def f(v):
        v = hcb.id_tap(seen.tap, v, tap_with_device=True)
        return hcb.call(lambda a: a + 1, v, result_shape=v)

    out = jax.jit(f)(sharded(mesh))
    assert out.tolist() == [i + 1.0 for i in range(8)]
    assert seen.take() == [(list(range(8)), jax.devices()[0])]
