# SPDX-License-Identifier: Apache-2.0
"""Tests progress bars under JAX's transformations, over several devices, and beside other effects."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout.progress import PBar, loop_tqdm, scan_tqdm
from jax import lax
from jax.experimental import io_callback

XS = jnp.arange(1.0, 11.0) / 10


def body(c, x):
    return jnp.sin(c) * x + c, c


def scanned(step):
    return lambda x: lax.scan(step, x, XS)[0]


@pytest.mark.parametrize("transform", [jax.grad, jax.value_and_grad, jax.hessian, jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("compile_it", [False, True])
def test_derivatives_have_one_bar_and_the_same_value(screen, transform, compile_it):
    wrap = jax.jit if compile_it else lambda f: f
    step = screen.bar(loss=lambda out: out[0])(body)
    got, expected = wrap(transform(scanned(step)))(0.5), wrap(transform(scanned(body)))(0.5)
    assert jax.tree.all(jax.tree.map(np.array_equal, got, expected))
    assert screen.bars() == 1
    assert screen.ends() == (10, 10)


def test_jvp(screen):
    got = jax.jvp(scanned(screen.bar()(body)), (0.5,), (1.0,))
    assert got == jax.jvp(scanned(body), (0.5,), (1.0,))
    assert screen.bars() == 1


@pytest.mark.parametrize(
    "arrange",
    [
        lambda bar: scanned(jax.checkpoint(bar(body))),
        lambda bar: scanned(bar(jax.checkpoint(body))),
        lambda bar: jax.checkpoint(scanned(bar(body))),
        lambda bar: jax.checkpoint(scanned(bar(body)), policy=jax.checkpoint_policies.everything_saveable),
        lambda bar: jax.checkpoint(scanned(jax.checkpoint(bar(body)))),
    ],
    ids=["body", "inside", "loop", "saving", "both"],
)
@pytest.mark.parametrize("compile_it", [False, True])
def test_remat_has_one_bar(screen, arrange, compile_it):
    grad = jax.grad(arrange(screen.bar()))
    np.testing.assert_allclose((jax.jit(grad) if compile_it else grad)(0.5), jax.grad(scanned(body))(0.5), rtol=1e-6)
    assert screen.bars() == 1
    assert screen.ends() == (10, 10)


def test_jit_around_the_body_and_in_it(screen):
    lax.scan(jax.jit(screen.bar()(body)), 0.5, XS)
    lax.scan(screen.bar()(jax.jit(body)), 0.5, XS)
    assert screen.bars() == 2
    assert screen.ends() == (10, 10)


def test_custom_derivatives_around_the_body(screen):
    step = screen.bar()(jnp.sin)
    one = jax.custom_jvp(step)
    one.defjvp(lambda primals, tangents: (one(*primals), tangents[0]))
    other = jax.custom_vjp(step)
    other.defvjp(lambda c: (other(c), None), lambda _, g: (g,))
    for function in (one, other):
        loop = jax.jit(lambda x, function=function: lax.fori_loop(0, 10, lambda _, c: function(c), x))
        assert float(loop(1.0)) == float(lax.fori_loop(0, 10, lambda _, c: jnp.sin(c), 1.0))
        assert float(jax.grad(loop)(1.0)) == 1
    assert screen.ends() == (10, 10)


def test_vmap_has_one_bar_with_the_mean_of_its_lanes(screen):
    got = jax.vmap(scanned(screen.bar(first=lambda out: out[1])(body)))(jnp.arange(3.0))
    np.testing.assert_array_equal(got, jax.vmap(scanned(body))(jnp.arange(3.0)))
    assert screen.bars() == 1
    mean = float(jax.vmap(lambda x: lax.scan(body, x, XS)[1][-1])(jnp.arange(3.0)).mean())
    assert float(screen.frames()[-1].fields["first"]) == pytest.approx(mean, rel=1e-2)


def test_vmap_of_grad_and_grad_of_vmap(screen):
    loop = scanned(screen.bar()(body))
    jax.vmap(jax.grad(loop))(jnp.arange(3.0))
    jax.grad(lambda x: jax.vmap(loop)(x).sum())(jnp.arange(3.0))
    assert screen.bars() == 2
    assert screen.ends() == (10, 10)


def test_pbar_has_a_bar_for_each_lane(screen):
    step = screen.bar(last=lambda out: out[0])(lambda c, x: (c + x, None))
    out = jax.jit(jax.vmap(lambda i, x: lax.scan(step, PBar(i, x), XS)[0].carry))(jnp.arange(3), jnp.arange(3.0) * 10)
    np.testing.assert_allclose(out, [5.5, 15.5, 25.5], rtol=1e-6)
    assert screen.bars() == 3
    assert [frame.done for frame in screen.frames()[-3:]] == [10, 10, 10]
    assert [frame.fields["last"] for frame in screen.frames()[-3:]] == ["5.5", "15.5", "25.5"]


def test_pbar_under_two_vmaps(screen):
    step = screen.bar()(body)

    def one(i, j, x):
        return lax.scan(step, PBar(2 * i + j, x), XS)[0].carry

    over_j = jax.vmap(one, in_axes=(None, 0, None))
    out = jax.vmap(over_j, in_axes=(0, None, 0))(jnp.arange(3), jnp.arange(2), jnp.arange(3.0))
    assert out.shape == (3, 2)
    assert screen.bars() == 6


def test_pbar_without_vmap(screen):
    step = screen.bar(desc="one")(body)
    for i in range(2):
        lax.scan(step, PBar(id=i, carry=0.5), XS)
    lax.fori_loop(0, 10, screen.bar(desc="two")(lambda i, v: v + i), PBar(0, 0))
    lax.while_loop(lambda v: v.carry < 10, screen.bar(desc="three")(lambda v: v + 1), PBar(0, 0))
    assert screen.ends("one") == screen.ends("two") == (10, 10)
    assert screen.ends("three") == (10, None)


def test_vmap_of_a_while_loop_counts_its_turns(screen):
    halve = screen.bar(error=lambda v: v)(lambda v: v / 2)
    start = jnp.array([1.0, 10.0, 0.001])
    got = jax.vmap(lambda x: lax.while_loop(lambda v: v > 0.01, halve, x))(start)
    expected = jax.vmap(lambda x: lax.while_loop(lambda v: v > 0.01, lambda v: v / 2, x))(start)
    np.testing.assert_array_equal(got, expected)
    assert screen.ends() == (10, None)


def test_vmap_of_a_while_loop_with_pbar_counts_each_lane(screen):
    halve = screen.bar(error=lambda v: v)(lambda v: v / 2)

    def one(i, x):
        return lax.while_loop(lambda v: v.carry > 0.01, halve, PBar(i, x)).carry

    out = jax.vmap(one)(jnp.arange(3), jnp.array([1.0, 10.0, 0.001]))
    last = screen.frames()[-3:]
    assert [frame.done for frame in last] == [7, 10, 0]
    assert [float(frame.fields["error"]) for frame in last[:2]] == pytest.approx([float(v) for v in out[:2]], rel=1e-2)


def test_ordered_effects_in_the_body_stay_in_order(screen, received):
    heard = []

    def step(c, x):
        io_callback(lambda v: heard.append(float(v)), None, c, ordered=True)
        callout.tap(received.tap, c, ordered=True)
        jax.debug.callback(lambda v: heard.append(-float(v)), c, ordered=True)
        return c + 1, None

    assert float(jax.jit(lambda x: lax.scan(screen.bar()(step), x, XS)[0])(1.0)) == 11
    jax.effects_barrier()
    callout.barrier_wait()
    # JAX orders each kind of effect separately.
    assert [value for value in heard if value > 0] == list(range(1, 11))
    assert [value for value in heard if value < 0] == list(range(-1, -11, -1))
    assert [float(value) for value in received] == list(range(1, 11))
    assert screen.ends() == (10, 10)


@pytest.mark.parametrize("ordered", [False, True])
def test_condition_with_an_effect_runs_once_a_turn(screen, received, ordered):
    def is_left(v):
        return callout.tap(received.tap, v, ordered=ordered) < 5

    assert int(jax.jit(lambda x: lax.while_loop(is_left, screen.bar()(lambda v: v + 1), x))(0)) == 5
    assert screen.ends() == (5, None)
    assert [int(value) for value in received] == [0, 1, 2, 3, 4, 5]


def test_batched_condition_with_an_effect(screen, received):
    def is_left(v):
        return callout.tap(received.tap, v, ordered=True) < 5

    loop = jax.vmap(lambda x: lax.while_loop(is_left, screen.bar()(lambda v: v + 1), x))
    assert loop(jnp.arange(3)).tolist() == [5, 5, 5]
    assert screen.ends() == (5, None)
    # The values come iteration by iteration, from the lanes that have not finished.
    assert [int(value) for value in received] == [0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 5]


def test_threaded_function_with_a_bar(screen, received):
    def step(c, x):
        return callout.tap(received.tap, c) + x, None

    run = jax.jit(callout.threaded(lambda x: lax.scan(screen.bar()(step), x, jnp.ones(10))[0]))
    assert float(run(0.0)) == 10
    assert screen.ends() == (10, 10)
    assert [float(value) for value in received] == list(range(10))


def test_random_keys_as_carry(screen):
    def step(key, _):
        key, one = jax.random.split(key)
        return key, jax.random.normal(one)

    def run(step):
        return jax.vmap(lambda key: lax.scan(step, key, XS)[1])(jax.random.split(jax.random.key(0), 3))

    np.testing.assert_array_equal(run(screen.bar()(step)), run(step))
    assert screen.ends() == (10, 10)


def test_donated_operand_is_used(screen):
    run = jax.jit(lambda x: lax.scan(screen.bar()(lambda c, x: (c + x, None)), x, XS)[0], donate_argnums=0)
    x = jnp.ones(1000)
    run(x)
    assert x.is_deleted()
    assert screen.ends() == (10, 10)


def test_64_bit_types(screen):
    with jax.enable_x64(True):
        out = lax.fori_loop(jnp.int64(0), jnp.int64(5), screen.bar()(lambda i, v: v + i), jnp.int64(0))
        assert out.dtype == np.int64
        carry, _ = lax.scan(screen.bar(loss=lambda out: out[0])(body), jnp.float64(0.5), jnp.arange(10.0))
        assert carry.dtype == np.float64
    assert screen.ends() == (10, 10)


@pytest.fixture
def mesh():
    return jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=platforms.devices(4))


P = jax.sharding.PartitionSpec


def sharded(mesh, function, check_vma=True):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=check_vma))


@pytest.mark.collectives
@pytest.mark.parametrize("check_vma", [False, True])
def test_shard_map_has_a_bar_for_each_device(screen, mesh, check_vma):
    bar = screen.bar(desc="fit", value=lambda out: out[0][0])
    run = sharded(mesh, scanned(bar(lambda c, x: (c + lax.psum(c, "d") * 0 + x, None))), check_vma)
    np.testing.assert_allclose(run(jnp.arange(4.0)), 5.5 + np.arange(4), rtol=1e-6)
    ends = {frame.desc: frame for frame in screen.frames()}
    assert sorted(ends) == [f"fit [device {i}]" for i in range(4)]
    assert {(frame.done, frame.total) for frame in ends.values()} == {(10, 10)}
    assert sorted(float(frame.fields["value"]) for frame in ends.values()) == [5.5, 6.5, 7.5, 8.5]


def test_shard_map_shows_the_sum(screen, mesh):
    run = sharded(mesh, scanned(screen.bar(devices="sum")(body)))
    for _ in range(2):
        run(jnp.arange(4.0))
    assert screen.bars() == 2
    assert screen.ends() == (40, 40)


def test_sum_of_loops_that_differ_in_length(screen, mesh):
    run = sharded(mesh, lambda x: lax.while_loop(lambda v: v[0] < 5, screen.bar(devices="sum")(lambda v: v + 1), x))
    run(jnp.arange(4.0))
    assert screen.bars() == 1
    assert screen.ends() == (5 + 4 + 3 + 2, None)


def test_sum_of_nested_loops(screen, mesh):
    inner = screen.bar(desc="inner", devices="sum")(body)
    run = sharded(mesh, lambda x: lax.fori_loop(0, 3, lambda _, c: scanned(inner)(c), x))
    run(jnp.arange(4.0))
    assert screen.bars("inner") == 3
    assert [frame.done for frame in screen.frames("inner")].count(40) >= 3


@pytest.mark.devices(4)
def test_pmap(screen):
    jax.pmap(scanned(screen.bar(desc="p")(body)))(jnp.arange(4.0))
    assert sorted({frame.desc for frame in screen.frames()}) == [f"p [device {i}]" for i in range(4)]
    assert screen.ends("p [device 2]") == (10, 10)


@pytest.mark.collectives
def test_jit_over_several_devices_has_one_bar(screen, mesh):
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, P("d")))
    bar = screen.bar(total_of=lambda out: out[0].sum())
    run = jax.jit(scanned(bar(lambda c, x: (c + x, None))))
    for _ in range(2):
        np.testing.assert_allclose(run(x), np.arange(8) + 5.5, rtol=1e-6)
    assert screen.bars() == 2
    assert screen.ends() == (10, 10)
    assert screen.frames()[-1].fields["total_of"] == "72"


@pytest.mark.collectives
def test_while_loop_over_several_devices(screen, mesh):
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, P("d")))
    jax.jit(lambda x: lax.while_loop(lambda v: v.sum() < 1000, screen.bar()(lambda v: v + 1), x))(x)
    assert screen.ends() == (122, None)


def test_explicit_mesh(screen):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,), devices=platforms.devices(4))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, P("d")))
        jax.jit(scanned(screen.bar()(lambda c, x: (c + x, c))))(x)
    assert screen.ends() == (10, 10)


@pytest.mark.devices(4)
def test_shard_map_that_leaves_an_axis_to_the_compiler(screen):
    auto = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=auto, devices=jax.devices()[:4])
    loop = scanned(screen.bar(desc="s", devices="each")(lambda c, x: (c + x, None)))
    run = jax.jit(jax.shard_map(loop, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}))
    np.testing.assert_allclose(run(jnp.arange(4.0)), np.arange(4) + 5.5, rtol=1e-6)
    assert screen.frames()


def test_exported_program_carries_its_bar(capsys):
    bar = callout.progress.progress(desc="far", tqdm_type="std", mininterval=0, loss=lambda out: out[0])
    exported = callout.export(jax.jit(scanned(bar(lambda c, x: (c + 1, None)))))(jnp.float32(0))
    assert callout.exported_names(exported) == ()
    loaded = jax.export.deserialize(exported.serialize())
    assert float(loaded.call(jnp.float32(0))) == 10
    callout.barrier_wait()
    assert "far: 100%" in capsys.readouterr().err


def test_exported_program_cannot_carry_a_file(screen):
    with pytest.raises(ValueError, match="carries its bar as text"):
        callout.export(jax.jit(scanned(screen.bar()(body))))(jnp.float32(0))


def test_drop_ins_under_grad_vmap_remat_and_shards(screen, mesh):
    scan_body = scan_tqdm(10, **screen.like_jax_tqdm(desc="scan"))(lambda c, x: (jnp.sin(c), x))
    loop_body = loop_tqdm(10, **screen.like_jax_tqdm(desc="loop"))(lambda _, v: jnp.sin(v))

    def run(x):
        return lax.scan(scan_body, x, jnp.arange(10))[0] + lax.fori_loop(0, 10, loop_body, x)

    assert np.isfinite(jax.jit(jax.grad(jax.checkpoint(run)))(1.0))
    assert jax.vmap(jax.grad(run))(jnp.ones(3)).shape == (3,)
    assert sharded(mesh, run)(jnp.ones(4)).shape == (4,)
    assert screen.ends("scan") == screen.ends("loop") == (10, 10)
    assert screen.ends("loop [device 3]") == (10, 10)
