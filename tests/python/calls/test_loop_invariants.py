# SPDX-License-Identifier: Apache-2.0
"""Tests callbacks that depend on nothing in their loop: they run once in each step, under grad as without it."""

import warnings

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import host_callback
from jax import lax
from jax.sharding import PartitionSpec as P

F32 = jax.ShapeDtypeStruct((), jnp.float32)
STEPS = 4


class Host:
    """A callback that counts its calls and returns the number of the call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *_args, **_kwargs):
        self.calls += 1
        return np.float32(self.calls)

    def count(self, function, *args):
        """Returns the first result of a program, and the number of calls."""
        self.calls = 0
        result = jax.tree.leaves(function(*args))[0]
        jax.block_until_ready(result)
        jax.effects_barrier()
        callout.barrier_wait()
        return float(result), self.calls


@pytest.fixture
def host():
    return Host()


def shown(function):
    """Returns a callback that calls `function` with the weight and returns the weight."""

    def show(host, w):
        function(host, w)
        return w

    return show


ANSWERS = {
    "io_callback": lambda host, _: callout.io_callback(host, F32),
    "io_callback, ordered": lambda host, _: callout.io_callback(host, F32, ordered=True),
    "io_callback of a constant": lambda host, _: callout.io_callback(host, F32, jnp.float32(1)),
    "host_callback.call": lambda host, _: host_callback.call(host, jnp.float32(1), result_shape=F32),
    "io_callback, in jit": lambda host, _: jax.jit(lambda: callout.io_callback(host, F32))(),
    "io_callback, threaded": lambda host, _: callout.threaded(lambda: callout.io_callback(host, F32))(),
}
TAPS = {
    "tap": callout.tap,
    "tap, ordered": lambda host, w: callout.tap(host, w, ordered=True),
    "tap, threaded": lambda host, w: callout.threaded(lambda w: callout.tap(host, w))(w),
    "tap, in jit": lambda host, w: jax.jit(lambda w: callout.tap(host, w))(w),
    "tap, in cond": lambda host, w: lax.cond(w > 0, lambda: callout.tap(host, w), lambda: w),
    "tap, in a loop": lambda host, w: lax.scan(lambda c, _: (callout.tap(host, w), None), w, length=1)[0],
    "id_tap": lambda host, w: host_callback.id_tap(host, w),
    "debug_callback": shown(callout.debug_callback),
    "debug_callback, ordered": shown(lambda host, w: callout.debug_callback(host, w, ordered=True)),
    "debug_callback of nothing": shown(lambda host, _: callout.debug_callback(host)),
}


def scanned(host, ask):
    return lambda w: lax.scan(lambda c, _: (c * ask(host, w) * w, None), jnp.float32(1), length=STEPS)[0]


def counted(host, ask):
    return lambda w: lax.fori_loop(0, STEPS, lambda _, c: c * ask(host, w) * w, jnp.float32(1))


def mapped(host, ask):
    return lambda w: lax.map(lambda _: ask(host, w) * w, jnp.arange(STEPS)).sum()


EACH_KIND = [(scanned, kind) for kind in (*ANSWERS, *TAPS)]
EACH_LOOP = [(loop, kind) for loop in (counted, mapped) for kind in ("io_callback", "tap", "tap, ordered")]
DERIVATIVES = {
    "vjp": lambda f: lambda w: jax.vjp(f, w)[0],
    "linearize": lambda f: lambda w: jax.linearize(f, w)[0],
}


@pytest.mark.parametrize(("loop", "kind"), EACH_KIND + EACH_LOOP)
def test_the_gradient_makes_as_many_calls_as_the_function(host, loop, kind):
    f = loop(host, {**ANSWERS, **TAPS}[kind])
    plain = host.count(jax.jit(f), 1.5)
    assert plain[1] == STEPS
    assert host.count(jax.jit(jax.value_and_grad(f)), 1.5) == plain


def test_the_gradient_uses_the_values_that_the_host_returned(host):
    f = scanned(host, ANSWERS["io_callback"])
    value, slope = jax.jit(jax.value_and_grad(f))(1.0)
    assert (float(value), float(slope)) == (24, 96)
    value, slope = jax.value_and_grad(scanned(Host(), ANSWERS["io_callback"]))(1.0)
    assert (float(value), float(slope)) == (24, 96)


@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_other_derivatives_make_as_many_calls(host, derivative):
    f = scanned(host, ANSWERS["io_callback"])
    assert host.count(jax.jit(DERIVATIVES[derivative](f)), 1.0) == (24, STEPS)


@pytest.mark.parametrize("kind", TAPS)
def test_checkpoint_repeats_the_calls_of_each_step(host, kind):
    def f(w, wrap=lambda step: step):
        step = wrap(lambda c, _: (jnp.sin(c * TAPS[kind](host, w)), None))
        return lax.scan(step, w, length=STEPS, unroll=2)[0]

    value, _ = host.count(jax.jit(f), 1.5)
    assert host.count(jax.jit(jax.value_and_grad(jax.checkpoint(f))), 1.5) == (pytest.approx(value), 2 * STEPS)
    of_steps = jax.value_and_grad(lambda w: f(w, jax.checkpoint))
    assert host.count(jax.jit(of_steps), 1.5) == (pytest.approx(value), 2 * STEPS)


@pytest.mark.parametrize("kind", ["tap", "tap, in cond", "tap, in jit", "tap, threaded", "debug_callback"])
def test_loops_with_policies_and_in_loops_make_all_calls(host, kind):
    policy = jax.checkpoint_policies.dots_saveable

    def inner(w):
        step = jax.checkpoint(lambda c, _: (jnp.sin(c * TAPS[kind](host, w)), None), policy=policy)
        return lax.scan(step, w, length=STEPS)[0]

    def f(w):
        return lax.scan(lambda c, _: (c * inner(w), None), w, length=3)[0]

    assert host.count(jax.jit(f), 1.5)[1] == 3 * STEPS
    assert host.count(jax.jit(jax.grad(f)), 1.5)[1] == 2 * 3 * STEPS


def test_calls_of_a_shard_map_stay_in_their_loop(host):
    mesh = jax.make_mesh((1,), ("d",))
    f = scanned(host, TAPS["tap"])
    spread = jax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    assert host.count(jax.jit(jax.grad(spread)), 1.5)[1] == STEPS


def test_ordered_callbacks_keep_their_order_in_the_loop():
    seen = []

    def step(c, x):
        callout.tap(lambda _: seen.append("first"), w, ordered=True)
        callout.tap(seen.append, x, ordered=True)
        callout.debug_callback(lambda: seen.append("last"), ordered=True)
        return c * w, None

    w = 2.0
    jax.jit(jax.grad(lambda v: lax.scan(step, v, jnp.arange(2.0))[0]))(w)
    callout.barrier_wait()
    assert seen == ["first", 0, "last", "first", 1, "last"]


def test_loop_invariant_residuals_are_hoisted(host):
    """A residual that all steps share is stored once, not for each step, even beside a callback and behind a tap."""

    def f(w):
        def step(c, _):
            callout.debug_callback(host, w)
            tapped = callout.tap(host, w)
            return jax.jit(lambda c: callout.tap(host, c) @ jnp.sin(tapped))(c), None

        return lax.scan(step, jnp.ones((2, 3)), length=STEPS)[0].sum()

    text = str(jax.make_jaxpr(jax.grad(f))(jnp.ones((3, 3))))
    assert f"[{STEPS},2,3]" in text
    assert f"[{STEPS},3,3]" not in text


def test_pure_callbacks_may_leave_the_loop(host):
    f = scanned(host, lambda host, _: callout.pure_callback(host, F32))
    assert host.count(jax.jit(jax.grad(f)), 1.0)[1] == 1


def test_the_fallback_makes_as_many_calls(host):
    before = callout.config.fallback
    callout.config.fallback = "always"
    try:
        for kind in ("io_callback", "io_callback, ordered"):
            f = scanned(host, ANSWERS[kind])
            assert host.count(jax.jit(jax.value_and_grad(f)), 1.0) == (24, STEPS)
        assert host.count(jax.jit(jax.grad(scanned(host, TAPS["tap"]))), 1.0)[1] == STEPS
    finally:
        callout.config.fallback = before


def test_without_the_patch_such_a_callback_runs_once(host):
    f = scanned(host, ANSWERS["io_callback"])
    callout.config.patch_loop_invariants = False
    try:
        assert host.count(jax.jit(jax.value_and_grad(f)), 1.0) == (1, 1)
    finally:
        callout.config.patch_loop_invariants = True


def test_checked_jaxprs_are_well_formed(host):
    with jax.enable_checks(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for kind in ("tap", "tap, in cond", "tap, in jit", "debug_callback, ordered"):
            f = scanned(host, TAPS[kind])
            assert host.count(jax.jit(jax.value_and_grad(f)), 1.5)[1] == STEPS
            assert host.count(jax.jit(jax.value_and_grad(jax.checkpoint(f))), 1.5)[1] == 2 * STEPS
