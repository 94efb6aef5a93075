# SPDX-License-Identifier: Apache-2.0
"""Tests the interpreter of control flow: each primitive of JAX's with each kind of state under each transformation."""

import importlib
import importlib.util
import types

import callout
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callout import _jax_compat
from callout._primitives import jaxprs
from callout._primitives.control_flow import Interpreter, State, rule_of
from jax import lax
from jax.experimental import hijax
from jax.extend import core as jex_core

ONE = jnp.float32(1)
noted_p = jex_core.Primitive("noted")  # the identity; the interpreters in this file change its value
noted_p.def_impl(lambda x: x)
noted_p.def_abstract_eval(lambda x: x)
jax.interpreters.batching.primitive_batchers[noted_p] = lambda args, dims: (noted_p.bind(*args), dims[0])
jax.interpreters.ad.deflinear2(noted_p, lambda cotangent, _: [cotangent])
jax.interpreters.mlir.register_lowering(noted_p, lambda _, x: [x])
noted = noted_p.bind

found = jaxprs.Search(lambda eqn: eqn.primitive is noted_p)


class Probe(Interpreter):
    """An interpreter whose `change(state, value)` returns the new carried state and the replacement of a noted value."""

    def __init__(self, change, counts_steps):
        super().__init__()
        self.change, self.counts_steps = change, counts_steps

    def concerns(self, eqn):
        return found.in_equation(eqn)

    def apply(self, eqn, state, args):
        if eqn.primitive is noted_p:
            carried, value = self.change(state, args[0])
            return carried, [value]
        return super().apply(eqn, state, args)


def sum_of(steps):
    return sum((i + 1).astype(jnp.float32) for i in steps) if steps else jnp.float32(0)


# The replacement of a noted value, for each kind of state: counting the noted values (carried), adding a constant to
# each (broadcast), or adding the number of its step (steps).
KINDS = {
    "carried": (State(carried=jnp.int32(0)), lambda state, x: (state.carried + 1, x)),
    "broadcast": (State(broadcast=jnp.float32(5)), lambda state, x: ((), x + state.broadcast)),
    "steps": (State(), lambda state, x: ((), x + sum_of(state.steps))),
}


def run(kind, function, *args):
    """Returns the state carried out of a function, and the function's result."""
    state, change = KINDS[kind]
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    carried, outs = Probe(change, kind == "steps").evaluate(jaxpr, state, jax.tree.leaves(args))
    return carried, jax.tree.unflatten(jax.tree.structure(shape), outs)


@jax.custom_jvp
def with_jvp(x):
    return noted(x)


with_jvp.defjvp(lambda primals, tangents: (noted(primals[0]), 3 * tangents[0]))


@jax.custom_vjp
def with_vjp(x):
    return noted(x)


with_vjp.defvjp(lambda x: (noted(x), None), lambda _, cotangent: (3 * cotangent,))


def scanned(x, **how):
    return lax.scan(lambda c, _: (noted(c), c), x, None, length=3, **how)[0]


def newer_programs():
    """Returns programs with primitives that exist from JAX 0.12 on."""
    if importlib.util.find_spec("jax.experimental.overlap") is None:
        return {}
    overlap = importlib.import_module("jax.experimental.overlap")
    with_metadata = importlib.import_module("jax.experimental.xla_metadata").xla_metadata_call2
    named, dropped = {"name": "value"}, {"ad_metadata": "drop"}
    return {
        "xla_metadata_call": (lambda x: with_metadata(named)(noted)(x), 1, 0, 1),
        "xla_metadata_call, not of derivatives": (lambda x: with_metadata(named, **dropped)(noted)(x), 1, 0, 1),
        "program_order": (lambda x: overlap.program_order(noted, enforce=True)(x), 1, 0, 1),
        "program_order, not enforced": (
            lambda x: overlap.program_order(lambda x: noted(x), enforce=False, exclude_argnames="x")(x),
            1,
            0,
            1,
        ),
    }


# name: (program, number of noted values, sum of their steps, its derivative)
PROGRAMS = {
    "straight": (noted, 1, 0, 1),
    "jit": (jax.jit(noted), 1, 0, 1),
    "the same jit twice": (lambda x: (lambda f: f(f(x)))(jax.jit(noted)), 2, 0, 1),
    "scan": (scanned, 3, 6, 1),
    "scan, reversed": (lambda x: scanned(x, reverse=True), 3, 6, 1),
    "scan in scan": (lambda x: lax.scan(lambda c, _: (scanned(c), None), x, None, length=2)[0], 6, 21, 1),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, noted(c[1])), (0, x))[1], 2, 3, 1),
    "condition": (lambda x: lax.while_loop(lambda c: noted(c[1]) < 3, lambda c: (c[0], c[1] + 9), (0, x))[1], 2, 0, 1),
    "cond": (lambda x: lax.cond(x < 2, noted, lambda x: x, x), 1, 0, 1),
    "the other branch": (lambda x: lax.cond(x > 2, noted, lambda x: x, x), 0, 0, 1),
    "switch": (lambda x: lax.switch(1, [lambda x: x, noted, lambda x: x], x), 1, 0, 1),
    "platforms": (lambda x: lax.platform_dependent(x, cpu=noted, default=lambda x: x), 1, 0, 1),
    "checkpoint": (jax.checkpoint(noted), 1, 0, 1),
    "custom_jvp": (with_jvp, 1, 0, 3),
    "custom_vjp": (with_vjp, 1, 0, 3),
    "high": (lambda x: Noted(jax.typeof(x))(x), 1, 0, 3),
    **newer_programs(),
}


class Noted(getattr(hijax, "VJPHiPrimitive", None) or hijax.HiPrim):
    """A primitive that has a reverse-mode rule only."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()
        self.params = {"traced": jax.jit(noted).trace(jax.ShapeDtypeStruct(aval.shape, aval.dtype))}

    def expand(self, x):
        return noted(x)

    def vjp_fwd(self, _, x):
        return self(x), None

    def vjp_bwd_retval(self, _, cotangent):
        return (3 * cotangent,)

    def batch(self, _axis_data, args, dims):
        return Noted(jax.typeof(args[0]))(*args), dims[0]


def of_one_lane(function):
    return lambda x: jax.tree.map(lambda y: y[0], jax.vmap(function)(x[None]))


TRANSFORMS = {"eager": lambda f: f, "jit": jax.jit, "vmap": of_one_lane}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_state_reaches_inner_functions(name, kind, transform):
    program, times, steps, _ = PROGRAMS[name]
    carried, out = TRANSFORMS[transform](lambda x: run(kind, program, x))(ONE)
    plain = program(ONE)
    if kind == "carried":
        assert (carried, out) == (times, plain)
    elif kind == "steps":
        assert out == plain + steps
    elif name == "condition":  # the noted value decides the number of iterations
        assert out == 1
    else:
        assert out == plain + 5 * times


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("while", "condition")])
def test_derivatives_are_those_of_the_rules(name, kind):
    program, *_, slope = PROGRAMS[name]
    assert jax.jit(jax.grad(lambda x: run(kind, program, x)[1]))(ONE) == slope


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("used", ["all", "one"])
def test_a_vjp_rule_may_return_zero_cotangents(kind, used):
    @jax.custom_vjp
    def both(x, n):
        return noted(x), n + 1, x * 2

    both.defvjp(lambda x, n: (both(x, n), None), lambda _, cts: (3 * cts[0] + cts[2], None))

    def program(x):
        moved, number, other = both(x, 2)
        return moved + other * number if used == "all" else moved

    assert jax.jit(jax.grad(lambda x: run(kind, program, x)[1]))(ONE) == (6 if used == "all" else 3)


@pytest.mark.parametrize("kind", ["broadcast", "steps"])
def test_shard_map_gets_state_that_is_not_carried(kind):
    mesh = jax.make_mesh((1,), ("i",))
    spread = jax.shard_map(scanned, mesh=mesh, in_specs=jax.P(), out_specs=jax.P())
    assert run(kind, spread, ONE)[1] == {"broadcast": 16, "steps": 7}[kind]


def test_lanes_of_a_loop_that_end_apart_keep_their_values():
    def count(limit):
        return lax.while_loop(lambda c: c < limit, lambda c: noted(c) + 1, jnp.float32(0))

    limits = jnp.arange(1.0, 4.0)
    carried, out = run("carried", jax.vmap(count), limits)
    assert (int(carried), out.tolist()) == (3, limits.tolist())
    # A lane whose predicate is false keeps its value while the other lanes go on.
    assert run("broadcast", jax.vmap(count), limits)[1].tolist() == [6, 6, 6]


# Primitives for which JAX has rules and this package needs none, with the reason.
WITHOUT_RULE = {
    **dict.fromkeys(
        ["addupdate", "get", "swap", "new_ref", "free_ref"], "uses a mutable array, and has no function inside"
    ),
    **dict.fromkeys(["debug_callback", "debug_print"], "is JAX's own callback, and has no function inside"),
    "core_map": "is a kernel",
    "remat_opt": "stands for one of two functions, between which JAX chooses later",
    "call_hi_primitive_linearized": "is linear, and has no function inside",
}


def test_each_primitive_of_jax_with_functions_has_a_rule():
    """Fails with the name of any control-flow primitive that JAX adds."""
    found = {*_jax_compat.remat_rules(), *jax.interpreters.partial_eval.dce_rules}
    equations = [types.SimpleNamespace(primitive=primitive, params={"_prim": object()}) for primitive in found]
    missing = {eqn.primitive.name for eqn in equations if rule_of(eqn) is None}
    named = {name for name in missing if not name.startswith(("callout_", "vjp_node["))}  # not ours, not linear
    assert named - WITHOUT_RULE.keys() == set()


def test_vjp_only_primitives_keep_their_rule_under_locate_nans():
    x = jnp.float32(2)
    high = PROGRAMS["high"][0]
    for program in (high, lambda x: lax.scan(lambda c, _: (high(c), None), x, None, length=2)[0], jax.jit(high)):
        plain = jax.grad(program)(x)
        assert jax.jit(jax.grad(callout.locate_nans(program)))(x) == plain != 1


if hasattr(jax.custom_vjp, "defvjp_with_logs"):  # JAX 0.12 or newer

    def test_logs_of_the_way_back_pass_locate_nans():
        if jax.config.jax_custom_jvp3:
            pytest.skip("JAX's new custom_jvp, of which locate_nans consists, loses logs")

        @jax.custom_vjp
        def logged(x):
            return x * 2

        logged.defvjp_with_logs(
            lambda x: (x * 2, None), lambda _, cotangent: ((cotangent * 2,), {"cotangent": cotangent})
        )
        for located in (lambda f: f, callout.locate_nans, callout.threaded):
            _, back = jax.vjp(located(lambda x: logged(x) + 1), ONE)
            assert back.with_logs(ONE) == ((2,), {"cotangent": 1})


def test_functions_that_use_jax_see_no_mesh():
    seen = []

    def look(x):
        seen.append(jax.sharding.get_abstract_mesh().empty)
        return x

    spec = jax.ShapeDtypeStruct((), np.float32)
    with jax.set_mesh(jax.make_mesh((1,), ("i",))):
        out = jax.jit(lambda x: callout.pure_callback(callout.options(look, args="jax"), spec, x))(ONE)
        out.block_until_ready()
        callout.pure_callback(callout.options(look, args="jax"), spec, ONE)
    assert seen == [True, True]
