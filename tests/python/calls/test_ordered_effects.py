# SPDX-License-Identifier: Apache-2.0
"""Tests that tokens of our ordered effects are usable after a failed program; JAX handles the tokens of other effects."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import _jax_compat
from callout._base import patches
from jax.extend import core as jex_core
from jax.interpreters import mlir

ERRORS = (jax.errors.JaxRuntimeError, ValueError, ExceptionGroup)


class Ordered(jex_core.Effect):
    def __str__(self):
        return "TestOrdered"


class Unordered(jex_core.Effect):
    def __str__(self):
        return "TestUnordered"


ordered, unordered = Ordered(), Unordered()
_jax_compat.register_effect(Ordered, ordered=True)
_jax_compat.register_effect(Unordered)
calls = []


def act(value):
    calls.append(float(value))
    if value < 0:
        raise ValueError("negative")
    return value


act_p = jex_core.Primitive("ordered_act")
# The unordered effect is needed, too: with the ordered one alone, JAX's ahead-of-time path fails from the second call
# on.
act_p.def_effectful_abstract_eval(lambda aval: (aval, {ordered, unordered}))


def lower(ctx, value):
    ctx.set_tokens_out(ctx.tokens_in)  # if a program fails, all its results fail, its token included
    return jax.ffi.ffi_lowering("callout.v1.call", has_side_effect=True)(ctx, value, callback="ordered_act")


for _platform in ("cpu", "cuda"):
    mlir.register_lowering(act_p, lower, platform=_platform)


def program(value):
    # The product makes the program expensive, so that XLA does not run it in its caller, and it fails after its
    # dispatch.
    matrix = jnp.full((64, 64), value)
    return act_p.bind(value + 0 * (matrix @ matrix)[0, 0])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    calls.clear()
    patches.ensure("tokens", "errors")  # the patches that our primitives install
    monkeypatch.setattr(_jax_compat, "own_ordered_effects", {ordered})
    callout.register("ordered_act", act)
    yield
    callout.unregister("ordered_act")


def jitted():
    return jax.jit(program)


def ahead_of_time():
    return jax.jit(program).lower(jnp.float32(0)).compile()


both = pytest.mark.parametrize("make", [jitted, ahead_of_time])


def fail(f, device=None):
    with pytest.raises(ERRORS, match="negative"):
        f(jax.device_put(jnp.float32(-1), device)).block_until_ready()


@both
def test_programs_after_a_failed_one_run(make):
    f = make()
    for _ in range(3):
        fail(f)
        assert [float(f(jnp.float32(i))) for i in range(3)] == [0, 1, 2]
    assert calls == [-1, 0, 1, 2] * 3
    jax.effects_barrier()


@both
def test_only_users_of_the_results_get_the_error(make):
    f = make()
    for _ in range(3):
        try:
            failed = f(jnp.float32(-1))
        except ERRORS:
            failed = None  # the program was dispatched synchronously
        assert float(f(jnp.float32(1))) == 1
        if failed is not None:
            with pytest.raises(ERRORS, match="negative"):
                failed.block_until_ready()


@both
def test_effects_barrier_raises_a_failure_at_most_once(make):
    f = make()
    fail(f)
    try:
        jax.effects_barrier()
    except ERRORS:
        pass
    jax.effects_barrier()
    callout.barrier_wait()
    assert float(f(jnp.float32(1))) == 1
    jax.effects_barrier()


@pytest.mark.devices(2)
def test_programs_on_other_devices_are_not_affected_by_the_failure():
    f = jitted()
    first, second = jax.devices()[:2]
    fail(f, first)
    assert float(f(jax.device_put(jnp.float32(1), second))) == 1
    jax.effects_barrier()
    assert float(f(jax.device_put(jnp.float32(2), first))) == 2
    jax.effects_barrier()
    assert calls == [-1, 1, 2]


@pytest.mark.devices(4)
def test_over_several_devices():
    mesh = jax.make_mesh((4,), ("d",))
    body = lambda shard: program(shard[0])[None]  # noqa: E731
    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"), check_vma=False))
    place = lambda values: jax.device_put(values, jax.sharding.NamedSharding(mesh, jax.P("d")))  # noqa: E731
    for _ in range(2):
        with pytest.raises(ERRORS, match="negative"):
            f(place(np.float32([0, 1, -1, 2]))).block_until_ready()
        assert f(place(np.float32([0, 1, 2, 3]))).tolist() == [0, 1, 2, 3]
    jax.effects_barrier()
    assert float(jitted()(jnp.float32(5))) == 5


def test_order_is_kept():
    f = jitted()
    for i in range(50):
        f(jnp.float32(i))
    callout.barrier_wait()
    assert calls == list(range(50))


def test_ordered_effects_of_others_are_left_as_jax_leaves_them(monkeypatch):
    def outcomes():
        """Returns the errors of two dispatches and two barriers after a failure, for an ordered callback of JAX."""
        seen = []

        def run(function):
            try:
                function()
                seen.append("done")
            except ERRORS:
                seen.append("raised")

        f = jax.jit(lambda x: jax.debug.callback(act, x, ordered=True))
        for step in (lambda: f(-1.0), lambda: f(1.0), lambda: f(2.0), jax.effects_barrier, jax.effects_barrier):
            run(step)
        token_set.clear()
        return seen

    token_set = _jax_compat.runtime_token_set()
    cls = type(token_set)
    with_ours = outcomes()
    for name in ("set_output_runtime_token", "set_token_result", "get_token_input", "block_until_ready"):
        monkeypatch.setattr(cls, name, getattr(cls, name).callout_original)
    assert with_ours == outcomes()
    assert "raised" in with_ours
