# SPDX-License-Identifier: Apache-2.0
"""Programs of a callback, a lane's number and its value, for test_live_lanes.py. Lanes diverge in all of them."""

import jax
import jax.numpy as jnp
from jax import lax


def one_branch(see, lane, x):
    return lax.cond(x > 1, lambda x: see("taken", lane, x * 2), lambda x: x - 1, x)


def both_branches(see, lane, x):
    return lax.cond(x > 1, lambda x: see("taken", lane, x * 2), lambda x: see("other", lane, x - 1), x)


def switch(see, lane, x):
    branches = [lambda x, i=i: see(f"branch {i}", lane, x + i) for i in range(3)]
    return lax.switch(lane % 3, branches, x)


def nested_conds(see, lane, x):
    def inner(x):
        x = see("outer", lane, x)
        return lax.cond(x > 2.5, lambda x: see("inner", lane, x * 3), lambda x: see("else", lane, x), x)

    return lax.cond(x > 1, inner, lambda x: x, x)


def constant(see, lane, x):
    one = jnp.float32(1)
    return lax.cond(x > 1, lambda: see("constant", jnp.int32(7), one), lambda: one) + x


def scan_in_cond(see, lane, x):
    def step(carry, i):
        carry = see("step", lane, carry + i)
        return carry, carry

    return lax.cond(x > 1, lambda x: lax.scan(step, x, jnp.arange(3.0))[1].sum(), lambda x: x, x)


def map_in_cond(see, lane, x):
    return lax.cond(x > 1, lambda x: lax.map(lambda y: see("map", lane, y + x), jnp.arange(2.0)).sum(), lambda x: x, x)


def nested_jit(see, lane, x):
    @jax.jit
    def f(x):
        return see("jit", lane, x + 1)

    return lax.cond(x > 1, lambda x: f(f(x)), lambda x: x, x)


def checkpoint_in_cond(see, lane, x):
    return lax.cond(x > 1, jax.checkpoint(lambda x: jnp.sin(see("kept", lane, jnp.sin(x)))), lambda x: x, x)


def custom_jvp_in_cond(see, lane, x):
    @jax.custom_jvp
    def f(lane, x):
        return see("primal", lane, x * x)

    @f.defjvp
    def _(primals, tangents):
        lane, x = primals
        return f(lane, x), 2 * see("rule", lane, x) * tangents[1]

    return lax.cond(x > 1, lambda x: f(lane, x), lambda x: x, x)


def custom_vjp_in_cond(see, lane, x):
    @jax.custom_vjp
    def f(lane, x):
        return see("primal", lane, x * x)

    def forward(lane, x):
        return see("forward", lane, x * x), (lane, x)

    def backward(kept, cotangent):
        lane, x = kept
        return None, see("backward", lane, 2 * x * cotangent)

    f.defvjp(forward, backward)
    return lax.cond(x > 1, lambda x: f(lane, x), lambda x: x, x)


def vmap_in_cond(see, lane, x):
    def inner(y):
        return lax.cond(y > 1, lambda y: see("inner", lane, y), lambda y: y, y)

    return lax.cond(x > 1, lambda x: jax.vmap(inner)(x - jnp.arange(3.0)).sum(), lambda x: x, x)


def while_body(see, lane, x):
    return lax.while_loop(lambda x: x < 5, lambda x: see("body", lane, x + 1), x)


def while_condition(see, lane, x):
    return lax.while_loop(lambda x: see("condition", lane, x) < 5, lambda x: x + 1, x)


def while_both(see, lane, x):
    return lax.while_loop(lambda x: see("condition", lane, x) < 5, lambda x: see("body", lane, x + 1), x)


def while_captures(see, lane, x):
    limit = x + 2
    return lax.while_loop(lambda c: c[1] < limit, lambda c: (see("body", lane, c[0] * 2), c[1] + 1), (x, 0.0))[0]


def fori(see, lane, x):
    return lax.fori_loop(0, lane, lambda i, x: see("turn", lane, x + i), x)


def while_in_cond(see, lane, x):
    return lax.cond(x > 1, lambda x: while_both(see, lane, x), lambda x: see("else", lane, x), x)


def cond_in_while(see, lane, x):
    def body(x):
        return lax.cond(x > 2, lambda x: see("high", lane, x + 1), lambda x: see("low", lane, x + 0.5), x)

    return lax.while_loop(lambda x: x < 5, body, x)


def while_in_while(see, lane, x):
    def body(x):
        return see("outer", lane, lax.while_loop(lambda y: y < x + 1, lambda y: see("inner", lane, y + 0.5), x))

    return lax.while_loop(lambda x: x < 5, body, x)


def scan_in_while(see, lane, x):
    def body(x):
        return lax.scan(lambda c, i: (see("turn", lane, c + i), None), x, jnp.arange(2.0))[0]

    return lax.while_loop(lambda x: x < 5, body, x)


def while_of_one_length_in_cond(see, lane, x):
    def turn(c):
        return c[0] + 1, see("turn", lane, c[1] * 2)

    return lax.cond(x > 1, lambda x: lax.while_loop(lambda c: c[0] < 3, turn, (0, x))[1], lambda x: x, x)


def cond_in_scan(see, lane, x):
    def step(carry, i):
        return lax.cond(carry > i, lambda c: see("above", lane, c - 1), lambda c: c + 0.25, carry), None

    return lax.scan(step, x, jnp.arange(4.0))[0]


CONDS = [
    *(one_branch, both_branches, switch, nested_conds, constant, scan_in_cond, map_in_cond, nested_jit),
    *(checkpoint_in_cond, custom_jvp_in_cond, custom_vjp_in_cond, vmap_in_cond, cond_in_scan),
]
LOOPS = [
    *(while_body, while_condition, while_both, while_captures, fori, while_in_cond, cond_in_while, while_in_while),
    *(scan_in_while, while_of_one_length_in_cond),
]
