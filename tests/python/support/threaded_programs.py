# SPDX-License-Identifier: Apache-2.0
"""Programs with ordered taps and callbacks in all kinds of places, and functions that run and compare them."""

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

ONE = jnp.float32(1)
SPEC = jax.ShapeDtypeStruct((), "float32")


class Heard:
    """Collects the values of several taps and callbacks in one list."""

    def __init__(self):
        self.records = []

    def receiver(self, name, result=None):
        def receive(value):
            self.records.append((name, jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), value)))
            return result

        return callout.options(receive, name=name, numpy_only=True)


class Outs:
    """Ordered callbacks of a program, which record their places."""

    def __init__(self, heard):
        self.heard, self.receivers = heard, {}

    def _receiver(self, name, result=None):
        return self.receivers.setdefault(name, self.heard.receiver(name, result))

    def tap(self, name, value, **more):
        return callout.tap(self._receiver(name), value, ordered=True, **more)

    def io(self, name, value):
        return callout.io_callback(self._receiver(name, np.float32(2)), SPEC, value, ordered=True)

    def debug(self, name, value):
        callout.debug_callback(self._receiver(name), value, ordered=True)


def straight(o, x):
    for i in range(6):
        x = o.tap(f"t{i % 2}", x) if i % 3 else x + 1
        o.tap("side", jnp.sin(x) * i)
    return x * 2


def mixed(o, x):
    o.tap("a", x)
    y = o.io("b", x + 1)
    o.debug("c", y)
    o.tap("d", x)
    o.debug("e", x * 3)
    return o.io("f", y) + y


def trees(o, x):
    value = o.tap("tree", {"x": x, "n": (jnp.int32(3), [x + 1])})
    o.tap("of two", (x, value["n"]))
    return {"out": value, "none": None}


def result_of_another(o, x):
    return o.tap("a", x, result=o.tap("b", x + 1, result=(x, 3)))


def conds(o, x):
    def high(v):
        o.tap("high", v)
        return o.tap("high too", v * 2)

    def low(v):
        return lax.cond(v > 0, lambda w: o.tap("between", w), lambda w: w - 1, v)

    x = lax.cond(x > 1, high, low, o.tap("before", x))
    return o.tap("after", x)


def switch(o, x):
    branches = [lambda v, i=i: o.tap(f"branch {i}", v) + i for i in range(3)] + [lambda v: v]
    return o.tap("end", lax.switch(x.astype(int), branches, x) + lax.switch(2, branches, x))


def while_body(o, x):
    return o.tap("end", lax.while_loop(lambda c: c < 5, lambda c: o.tap("b", o.tap("a", c) + 1), x))


def while_condition(o, x):
    def condition(c):
        o.debug("odd", c[0] * 10)
        return o.tap("condition", c[0]) < 4

    return lax.while_loop(condition, lambda c: (o.tap("body", c[0]) + 1, c[1] + o.io("io", c[1])), (x, x))[1]


def while_io_condition(o, x):
    return lax.while_loop(lambda c: o.io("io", c) + c < 5, lambda c: o.tap("body", c) + 1, x)


def scan(o, x):
    def step(c, v):
        o.tap("in", v)
        return o.tap("carry", c) + v, (o.tap("out", c * v), v)

    c, ys = lax.scan(step, x, jnp.arange(4.0), reverse=True)
    return o.tap("end", c), ys, lax.scan(step, x, jnp.arange(5.0), unroll=2)


def fori(o, x):
    return lax.fori_loop(0, 5, lambda i, c: c + o.tap("step", (i, c))[1], x)


def mapped(o, x):
    return lax.map(lambda v: o.tap("lane", v), jnp.arange(3.0) + x)


def nested_jit(o, x):
    inner = jax.jit(lambda v: o.tap("inner", v) + 1)

    def twice(v):
        return inner(inner(v))

    return o.tap("end", jax.jit(twice)(inner(o.tap("begin", x))))


def nested_loops(o, x):
    def outer(i, c):
        def inner(state):
            j, v = state
            v = lax.cond(j > i, lambda w: o.tap("greater", w), lambda w: o.tap("other", w) + 1, v)
            return j + 1, v

        o.tap("outer", i)
        return lax.while_loop(lambda state: o.tap("test", state[0]) < 3, inner, (0, c))[1]

    return lax.fori_loop(0, 3, outer, x)


def unused_results(o, x):
    lax.scan(lambda c, _: (o.tap("loop", c) + 1, None), x, None, length=2)
    lax.cond(x > 0, lambda: o.tap("cond", x), lambda: x)
    jax.jit(lambda v: o.tap("jit", v))(x)
    lax.while_loop(lambda c: c < 3, lambda c: o.tap("while", c) + 1, x)
    return 1


def remat(o, x):
    return jax.checkpoint(lambda v: jnp.sin(o.tap("remat", jnp.sin(v))))(x)


def grad_of_remat(o, x):
    def loop(v):
        return lax.scan(lambda c, _: (jnp.sin(o.tap("again", c)), None), v, None, length=3)[0]

    f = jax.checkpoint(lambda v: jnp.sin(o.tap("remat", jnp.sin(v))))
    return jax.grad(lambda v: f(jax.checkpoint(loop)(v)))(x)


def grads(o, x):
    def f(v):
        return lax.scan(lambda c, _: (jnp.sin(o.tap("grad", c)), None), v, None, length=3)[0] * o.tap("factor", v)

    return jax.value_and_grad(f)(x), jax.grad(f)(x), jax.jvp(f, (x,), (x,))


def vmap_inside(o, x):
    return jax.vmap(lambda v: o.tap("batch", v) + 1)(jnp.arange(3.0) + x)


def custom_rules(o, x):
    @jax.custom_jvp
    def f(v):
        return o.tap("primal", v) * 2

    f.defjvp(lambda primals, tangents: (f(o.tap("rule", primals[0])), tangents[0] * 2))

    @jax.custom_vjp
    def g(v):
        return o.tap("vjp primal", v) * 3

    g.defvjp(lambda v: (o.tap("forward", v) * 3, v), lambda v, ct: (o.tap("backward", ct) * 3 + v,))
    return o.tap("end", g(f(x))), jax.grad(lambda v: g(f(v)))(x)


def platforms(o, x):
    return lax.platform_dependent(x, cpu=lambda v: o.tap("cpu", v), default=lambda v: v + 1) + 1


def keys(o, x):
    key = jax.random.key(0)
    return o.tap("key", key), x


def in_place_of_nothing(o, x):
    return x, 3, jnp.arange(2)


FOR_PLATFORMS = pytest.param(
    platforms, marks=pytest.mark.cpu_only("JAX drops the ordered effects of a branch for another platform")
)
PROGRAMS = [
    straight, mixed, trees, result_of_another, conds, switch, while_body, while_condition, while_io_condition, scan, fori,
    mapped, nested_jit, nested_loops, unused_results, remat, grad_of_remat, grads, vmap_inside, custom_rules, FOR_PLATFORMS,
    keys, in_place_of_nothing,
]  # fmt: skip


def run(make, *args):
    """Calls the function that `make(Outs)` returns twice, and returns the results and the tapped records."""
    heard = Heard()
    f = make(Outs(heard))
    out = jax.block_until_ready([f(*args), f(*args)])
    callout.barrier_wait(timeout=30)
    return out, heard.records


def same(plain, other):
    assert other[1] == plain[1]
    assert jax.tree.structure(other[0]) == jax.tree.structure(plain[0])
    for a, b in zip(jax.tree.leaves(plain[0]), jax.tree.leaves(other[0]), strict=True):
        assert a.dtype == b.dtype
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def effects_of(f, *args):
    return jax.make_jaxpr(f)(*args).effects
