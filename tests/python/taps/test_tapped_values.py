# SPDX-License-Identifier: Apache-2.0
"""Tests that a tapped value is computed once: code that reads the value reads the tap's result."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import platforms
import pytest
from callout._primitives import tapped_values
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.skipif(platforms.PLATFORM != "cpu", reason="programs of other platforms stay as they are")

STEPS = 6
X = np.linspace(0, 1, 64, dtype=np.float32)


def step(x):
    return jnp.sin(x) * 1.01


def plain(x, tap=lambda x: x):
    for _ in range(STEPS):
        x = tap(step(x))
    return x


def ignored(heard, x, **options):
    def tap(x):
        callout.tap(heard.append, x, **options)
        return x

    return plain(x, tap)


def read_before(heard, x):
    for _ in range(STEPS):
        y = step(x)
        callout.tap(heard.append, x)
        x = y
    callout.tap(heard.append, x)
    return x


def several(heard, x):
    for _ in range(STEPS):
        y = step(x)
        x = step(y)
        callout.tap(lambda both: heard.extend(both), (y, x, y))
    return x


def inner(heard, x):
    tapped = jax.jit(lambda x: callout.tap(heard.append, step(x)))
    for _ in range(STEPS):
        x = tapped(x)
    return x


def in_branch(heard, x):
    return jax.lax.cond(x[0] < 1, lambda x: ignored(heard, x), lambda x: x, x)


def on_shards(heard, x):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=platforms.devices(2))
    return jax.shard_map(lambda x: ignored(heard, x), mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)


# (program with a tap, number of sines in its text, number of arrays that arrive)
PROGRAMS = {
    "used": (lambda heard, x: plain(x, lambda x: callout.tap(heard.append, x)), STEPS, STEPS),
    "ignored": (ignored, STEPS, STEPS),
    "ordered": (lambda heard, x: ignored(heard, x, ordered=True), STEPS, STEPS),
    "threaded": (lambda heard, x: callout.threaded(lambda x: ignored(heard, x, ordered=True))(x), STEPS, STEPS),
    "with a step": (lambda heard, x: ignored(heard, x, step=3), STEPS, STEPS),
    "read before": (read_before, STEPS, STEPS + 1),
    "several": (several, 2 * STEPS, 3 * STEPS),
    "inner": (inner, STEPS, STEPS),
    "in a branch": (in_branch, STEPS, STEPS),
    "vmap": (lambda heard, x: jax.vmap(lambda x: ignored(heard, x))(x), STEPS, STEPS),
    "on shards": (on_shards, STEPS, 2 * STEPS),
}


def sines(compiled):
    return compiled.as_text().count(" sine(")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_chain_of_tapped_values_is_computed_once(name):
    tapped, needed, count = PROGRAMS[name]
    heard = []
    program = jax.jit(lambda x: tapped(heard, x)).lower(X).compile()
    assert sines(program) == needed
    got = program(X)
    callout.barrier_wait(60)
    expected = X
    values = [np.asarray(expected := jax.jit(step)(expected)) for _ in range(needed)]
    assert np.array_equal(got, expected)
    assert len(heard) == count
    found = {np.ravel(one).tobytes() for one in heard}
    if name == "on shards":
        assert found == {half.tobytes() for value in values for half in (value[:32], value[32:])}
    else:
        assert found - {X.tobytes()} == {value.tobytes() for value in values}
    assert name not in ("ordered", "threaded") or all(map(np.array_equal, heard, values))


def test_held_values_check_required_attributes(monkeypatch):
    monkeypatch.setattr(tapped_values, "_CHECK", "callout.v1.image")
    with pytest.raises(TypeError, match=r"callout\.tap: callout\.v1\.image needs the attribute 'image'"):
        jax.jit(lambda x: read_before([], x)).lower(X)


def test_a_gradient_is_computed_once():
    tapped = jax.grad(lambda x: ignored([], x).sum())
    assert np.allclose(jax.jit(tapped)(X), jax.jit(jax.grad(lambda x: plain(x).sum()))(X), rtol=1e-6)
    assert sines(jax.jit(tapped).lower(X).compile()) == STEPS
    callout.barrier_wait(60)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: callout.tap(print, x * 2 + 1) - x,  # cheap
        lambda x: callout.tap(print, x) + jnp.sin(x),  # an argument
        lambda x: callout.tap(print, jnp.sin(x)),  # no other reader
        lambda x: callout.tap(print, jnp.sin(x.reshape(8, 8))) @ np.ones((8, 8), np.float32),  # XLA does not fuse it
        lambda x: jnp.sin(callout.tap(print, x[:8].reshape(2, 4) @ x[:8].reshape(4, 2))),  # XLA never recomputes it
    ],
)
def test_free_values_are_not_held(program):
    assert "returned" not in jax.jit(program).lower(X).as_text()


def test_the_switch_takes_it_away():
    callout.config.patch_tapped_values = False
    try:
        assert "returned" not in jax.jit(lambda x: ignored([], x)).lower(X).as_text()
    finally:
        callout.config.patch_tapped_values = True


def before_and_after(name, x):
    """Reads a tapped value before and after its tap."""
    for _ in range(STEPS):
        y = step(x)
        callout.tap(name, x)
        x = y
    return callout.tap(name, x)


EXPORTED = {
    "ignored": lambda name, x: plain(x, lambda x: (callout.tap(name, x), x)[1]),
    "ordered": lambda name, x: plain(x, lambda x: (callout.tap(name, x, ordered=True), x)[1]),
    "may fail": lambda name, x: plain(x, lambda x: (callout.tap(name, x, on_full="fail"), x)[1]),
    "before": before_and_after,
}


@pytest.fixture
def heard():
    values = []
    callout.register("test.tapped", values.append)
    yield values
    callout.barrier_wait(60)
    callout.unregister("test.tapped")


def exported(kind):
    """Exports a program for one device, and loads it."""
    run = jax.jit(lambda x: EXPORTED[kind]("test.tapped", x))
    return jax.export.deserialize(callout.export(run)(X).serialize())


@pytest.mark.parametrize("kind", EXPORTED)
def test_an_exported_chain_is_computed_once(heard, kind):
    program = jax.jit(exported(kind).call)
    assert sines(program.lower(X).compile()) == STEPS
    got = program(X)
    expected = X
    values = [np.asarray(expected := jax.jit(step)(expected)) for _ in range(STEPS)]
    assert np.array_equal(got, expected)
    callout.barrier_wait(60)
    assert {one.tobytes() for one in heard} - {X.tobytes()} == {value.tobytes() for value in values}


@pytest.mark.parametrize("kind", EXPORTED)
def test_an_exported_chain_with_a_symbolic_dimension(heard, kind):
    run = jax.jit(lambda x: EXPORTED[kind]("test.tapped", x))
    program = callout.export(run)(jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), jnp.float32))
    got = jax.export.deserialize(program.serialize()).call(X)
    assert np.allclose(got, plain(X), rtol=1e-6)
    callout.barrier_wait(60)
    assert len(heard) == STEPS + (kind == "before")
    assert {one.shape for one in heard} == {X.shape}


@pytest.mark.parametrize("spec", [P(), P("d")], ids=str)
@pytest.mark.parametrize("kind", EXPORTED)
def test_a_chain_exported_for_one_device_runs_on_several(heard, kind, spec):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=platforms.devices(2))
    spread = jax.sharding.NamedSharding(mesh, spec)
    got = jax.jit(exported(kind).call, out_shardings=spread)(jax.device_put(X, spread))
    assert np.allclose(got, plain(X), rtol=1e-6)
    callout.barrier_wait(60)
    assert len(heard) == STEPS + (kind == "before")
    expected = X
    values = [np.asarray(expected := step(expected)) for _ in range(STEPS)]
    assert all(any(np.allclose(one, value, rtol=1e-5) for one in heard) for value in values)


def test_an_exported_program_keeps_shardings_of_tapped_shards():
    tapped = jax.jit(lambda x: jnp.cos(callout.tap("test.tapped", jnp.sin(x), sharding="local")))
    assert "returned" not in callout.export(tapped)(X).mlir_module()


@pytest.mark.parametrize("kind", ["ignored", "before"])
def test_a_chain_exported_for_one_device_runs_in_shard_map(heard, kind):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=platforms.devices(2))
    run = jax.jit(lambda x: EXPORTED[kind]("test.tapped", x))
    half = jax.export.deserialize(callout.export(run)(X[:32]).serialize())
    got = jax.jit(jax.shard_map(half.call, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False))(X)
    assert np.allclose(got, plain(X), rtol=1e-6)
    callout.barrier_wait(60)
    assert len(heard) == 2 * (STEPS + (kind == "before"))
