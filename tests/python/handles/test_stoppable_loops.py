# SPDX-License-Identifier: Apache-2.0
"""Tests `callout.scan` and `callout.fori_loop`: JAX's results, up to the step at which a flag is set."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

pytestmark = pytest.mark.native_only("programs read flags by a handler of XLA FFI")

XS = jnp.arange(1.0, 151.0) / 100
CHUNK = 64


def close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5), ours, theirs)


def step(w):
    return lambda carry, x: (jnp.sin(carry * w + x), carry * w)


def plain(w, start=0.3, xs=XS):
    carry, ys = lax.scan(step(w), start, xs)
    return carry + ys.sum()


def stoppable(stop, w, start=0.3):
    carry, ys, _ = callout.scan(step(w), start, XS, stop=stop)
    return carry + ys.sum()


class Stopped:
    """A loop whose flag is set inside of step `at`."""

    def __init__(self, at):
        self.at, self.stop = at, callout.StopFlag()

    def set(self, i):
        if i == self.at:
            self.stop.set()

    def run(self, w):
        def one(state, x):
            i, carry = state
            callout.io_callback(self.set, None, i)
            carry, y = step(w)(carry, x)
            return (i + 1, carry), y

        (_, carry), ys, steps = callout.scan(one, (0, 0.3), XS, stop=self.stop)
        return carry + ys.sum(), (ys, steps)


class TestWithoutAStop:
    @pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 150])
    def test_scan_matches_jax(self, length):
        f, xs = step(0.5), XS[:length]
        carry, ys, steps = jax.jit(lambda stop: callout.scan(f, 0.3, xs, stop=stop))(callout.StopFlag())
        close((carry, ys), lax.scan(f, 0.3, xs))
        assert int(steps) == length

    def test_trees_and_none(self):
        stop = callout.StopFlag()
        f = lambda carry, x: ({"n": carry["n"] + x["a"], "k": jax.random.split(carry["k"])[0]}, (x["b"], None))  # noqa: E731
        init, xs = {"n": 0, "k": jax.random.key(0)}, {"a": np.arange(3), "b": jnp.ones((3, 2))}
        carry, ys, steps = callout.scan(f, init, xs, stop=stop)
        expected, rows = lax.scan(f, init, xs)
        assert int(carry["n"]) == int(expected["n"]) == 3
        assert carry["k"] == expected["k"]
        close(ys, rows)
        assert callout.scan(lambda carry, _: (carry + 1, None), 0, length=5, stop=stop)[0] == 5
        assert int(steps) == 3

    def test_transformations(self):
        stop, ws = callout.StopFlag(), jnp.arange(3.0)
        run = lambda w: stoppable(stop, w)  # noqa: E731
        close(jax.jit(jax.value_and_grad(run))(0.5), jax.value_and_grad(plain)(0.5))
        close(jax.grad(stoppable, argnums=(1, 2))(stop, 0.5, 0.3), jax.grad(plain, argnums=(0, 1))(0.5, 0.3))
        close(jax.jvp(run, (0.5,), (1.0,)), jax.jvp(plain, (0.5,), (1.0,)))
        close(jax.hessian(run)(0.5), jax.hessian(plain)(0.5))
        close(jax.vmap(run)(ws), jax.vmap(plain)(ws))
        close(jax.vmap(jax.grad(run))(ws)[:2], jax.vmap(jax.grad(plain))(ws)[:2])
        close(jax.grad(jax.checkpoint(run))(0.5), jax.grad(plain)(0.5))

    def test_fori_loop_matches_jax(self):
        stop = callout.StopFlag()
        for lower, upper in ((2, 7), (7, 2), (np.int32(0), 3)):
            carry, steps = callout.fori_loop(lower, upper, lambda i, c: c * 2 + i, 1, stop=stop)
            assert int(carry) == int(lax.fori_loop(lower, upper, lambda i, c: c * 2 + i, 1))
            assert int(steps) == max(0, upper - lower)
        run = jax.jit(lambda n: callout.fori_loop(2, n, lambda i, c: c + i, 0.0, stop=stop))
        assert [float(out) for out in run(7)] == [20, 5]
        assert [float(out) for out in run(1)] == [0, 0]
        assert float(jax.grad(lambda w: callout.fori_loop(0, 3, lambda _, c: c * w, 1.0, stop=stop)[0])(2.0)) == 12


class TestWithAStop:
    @pytest.mark.parametrize("at", [0, 10, CHUNK - 1, CHUNK, 100])
    def test_values_and_gradients_are_those_of_the_steps_made(self, at):
        made = XS[: at + 1]
        for transform in (lambda f, **_: f, jax.value_and_grad):
            loop = Stopped(at)
            out = jax.jit(transform(loop.run, has_aux=True))(0.5)
            (value, (ys, steps)), *gradient = (out,) if transform is not jax.value_and_grad else out
            assert int(steps) == at + 1
            assert not np.asarray(ys[at + 1 :]).any()
            close(value, plain(0.5, xs=made))
            close(gradient, [jax.grad(plain)(0.5, xs=made)] if gradient else [])

    def test_fori_loop_ends(self):
        stop = callout.StopFlag(timeout=0.01)
        carry, steps = callout.fori_loop(0, 2_000_000_000, lambda _, c: c + 1, 0, stop=stop)
        assert 0 <= int(carry) == int(steps) < 2_000_000_000
        stop = callout.StopFlag()
        stop.set()
        run = jax.jit(lambda stop, n: callout.fori_loop(0, n, lambda _, c: c + 1, 0, stop=stop))
        assert [int(out) for out in run(stop, 5)] == [0, 0]


class TestErrors:
    def test_stop_is_a_flag(self):
        with pytest.raises(TypeError, match=r"callout\.scan: stop must be a callout\.StopFlag, got True"):
            callout.scan(lambda c, x: (c, x), 0, XS, stop=True)
        with pytest.raises(TypeError, match=r"callout\.fori_loop: stop must be a callout\.StopFlag, got None"):
            callout.fori_loop(0, 1, lambda _, c: c, 0, stop=None)

    @pytest.mark.parametrize(
        ("xs", "length", "text"),
        [
            (None, None, "nothing says how many steps there are: pass xs or length"),
            (jnp.ones(3), 4, r"lengths \[3, 4\]"),
            ((jnp.ones(3), jnp.ones(2)), None, r"lengths \[2, 3\]"),
            (1.0, None, "got a scalar"),
        ],
        ids=["neither", "both", "xs", "scalar"],
    )
    def test_scan_needs_a_known_number_of_steps(self, xs, length, text):
        with pytest.raises(ValueError, match=rf"callout\.scan: xs .*{text}"):
            callout.scan(lambda c, x: (c, x), 0, xs, length, stop=callout.StopFlag())

    def test_the_carry_stays_as_it_is(self):
        with pytest.raises(TypeError, match="must have the same pytree structure"):
            callout.scan(lambda c, _: ((c, c), None), 0, length=5, stop=callout.StopFlag())


def test_wrong_arguments_are_named():
    stop = callout.StopFlag()
    with pytest.raises(TypeError, match=r"callout\.scan: f must return a pair, .* got PyTreeDef\(\*\)"):
        callout.scan(lambda carry, _: carry, 0, jnp.arange(3), stop=stop)
    with pytest.raises(ValueError, match=r"callout\.scan: length must be 0 or more, got -3"):
        callout.scan(lambda carry, x: (carry, x), 0, None, -3, stop=stop)
    with pytest.raises(TypeError, match=r"callout\.fori_loop: lower and upper must be integers, got float32"):
        callout.fori_loop(0.5, 3, lambda _, w: w, 0, stop=stop)


def test_steps_have_the_type_that_loops_of_jax_give_them():
    seen = []
    with jax.enable_x64(True):
        callout.fori_loop(0, 3, lambda i, w: (seen.append(i.dtype), w)[1], 0, stop=callout.StopFlag())
        _, steps = callout.fori_loop(0, 3, lambda _, w: w, 0, stop=callout.StopFlag())
    assert {str(dtype) for dtype in seen} | {str(steps.dtype)} == {"int64"}
