# SPDX-License-Identifier: Apache-2.0
"""Evaluates traced functions with a state beside their values, also through JAX's control flow and nested functions.

1. An `Interpreter` evaluates a traced function again, equation by equation, and passes a `State` from one equation to
   the next.
2. The interpreter handles the equations that it is made for, such as callbacks. It binds other equations unchanged.
3. If a loop, a cond or a nested function contains an equation that the interpreter handles, the rule of its primitive
   in `_RULES` rebuilds it: it then takes the state beside its operands, and returns the carried part of the state
   beside its results.

Examples of such a state are masks of lanes (masking.py), order tokens (threaded) and step counts (locate_nans). If JAX
adds a primitive with a function inside, the primitive needs a rule here.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.extend import core as jex_core

from .. import _jax_compat
from . import jaxprs

_primitives = jex_core.primitives
Outs = Sequence[Any]


class State(NamedTuple):
    """The state beside the values. Each part is a pytree of arrays, or empty.

    carried: changes from one equation to the next; loops and functions return it.
    broadcast: is constant for all equations, and is never returned.
    steps: the step numbers of the enclosing loops, outermost first: int32 scalars. A loop adds its own for its body.
    """

    carried: Any = ()
    broadcast: Any = ()
    steps: tuple[Any, ...] = ()


Result = tuple[Any, Outs]  # (carried part of the next state, results)


class Interpreter(abc.ABC):
    """Evaluates one function. Caches nested functions that must stay one object for all uses."""

    counts_steps = False
    """True if loops count their steps."""

    def __init__(self) -> None:
        self.functions: dict[int, tuple[Any, Any]] = {}

    @abc.abstractmethod
    def concerns(self, eqn: Any) -> bool:
        """Returns whether an equation uses the state, or has an equation inside that does."""

    def apply(self, eqn: Any, state: State, args: Sequence[Any]) -> Result:
        """Evaluates an equation. Returns (carried part of the next state, results).

        A subclass overrides this for its own equations.
        """
        rule = rule_of(eqn) if self.concerns(eqn) else None
        if rule is None:
            return state.carried, _jax_compat.bind_again(eqn, args)
        return rule(self, eqn, state, args)

    def evaluate(self, jaxpr: Any, state: State, args: Sequence[Any]) -> Result:
        """Evaluates a jaxpr, closed or open. Returns (carried part of the last state, results)."""

        def each(eqn: Any, operands: list[Any]) -> Outs:
            nonlocal state
            carried, outs = self.apply(eqn, state, operands)
            state = state._replace(carried=carried)
            return outs

        outs = jaxprs.evaluate(jaxpr, args, each)
        return state.carried, outs

    def inside(self, eqn: Any, jaxpr: Any) -> Interpreter:
        """Returns the interpreter of `jaxpr`, which is a parameter of `eqn`."""
        del eqn, jaxpr
        return self

    def chosen(self, eqn: Any, index: Any) -> Any:
        """Returns the index of a cond's branch. A subclass may guard it."""
        del eqn
        return index

    def goes_on(self, eqn: Any, state: State, predicate: Any) -> Any:
        """Returns the predicate of a while loop. A subclass may change it."""
        del eqn, state
        return predicate

    def goes_in(self, predicate: Any) -> Any:
        """Returns the first predicate of a while loop whose condition concerns the interpreter. A subclass may guard it."""
        return predicate

    def derivative(self, function: Any, state: State, given: Sequence[Any], moves: Sequence[Any]) -> tuple[Any, Any]:
        """Evaluates `function(given, moves)`, traced by a derivative rule. Returns (carried part of the state, result)."""
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(list(given), list(moves))
        carried, outs = self.evaluate(jaxpr, state, [*given, *moves])
        return carried, jax.tree.unflatten(jax.tree.structure(shape), outs)

    def backward(self, function: Any, state: State, residuals: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        """Evaluates `function(residuals, cotangents)`, the backward function of a `jax.custom_vjp`."""
        return self.derivative(function, state, residuals, cotangents)[1]


Rule = Callable[[Interpreter, Any, State, Sequence[Any]], Result]


def rule_of(eqn: Any) -> Rule | None:
    """Returns the rule of a primitive with functions inside; None for other primitives."""
    if _jax_compat.high_primitive(eqn) is not None:
        return _high
    return _RULES.get(eqn.primitive) or _RULES_BY_NAME.get(eqn.primitive.name)


def called(eqn: Any) -> Any:
    """Returns the jaxpr of an equation that only calls this jaxpr, once; None for other equations.

    Derivatives and rematerialisation are left to the caller.
    """
    if _jax_compat.high_primitive(eqn) is not None:
        return jaxprs.expanded(eqn)
    return eqn.params.get(CALLED.get(eqn.primitive.name))


# The parameter with the function that an equation calls, by primitive.
CALLED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


# Loops and cond.


def _scan(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    params = eqn.params
    jaxpr, length = params["jaxpr"], params["length"]
    num_consts, num_carry = _jax_compat.scan_counts(params)
    consts, init, xs = args[:num_consts], args[num_consts : num_consts + num_carry], args[num_consts + num_carry :]
    body_of = interpreter.inside(eqn, jaxpr)

    def body(carry: Any, x: list[Any]) -> Any:
        carried, count, values = carry
        steps = state.steps
        if count is not None:
            steps = (*steps, length - 1 - count if params["reverse"] else count)
        carried, outs = body_of.evaluate(jaxpr, State(carried, state.broadcast, steps), [*consts, *values, *x])
        return (carried, _next(count), list(outs[:num_carry])), list(outs[num_carry:])

    settings = {name: params[name] for name in ("length", "reverse", "unroll")}
    first = (state.carried, _first(interpreter), list(init))
    (carried, _, values), ys = jax.lax.scan(body, first, list(xs), **settings)
    return carried, [*values, *ys]


def _first(interpreter: Interpreter) -> Any:
    return jnp.int32(0) if interpreter.counts_steps else None


def _next(count: Any) -> Any:
    return None if count is None else count + 1


@dataclasses.dataclass(frozen=True)
class _While:
    """Evaluates the functions of a while loop, with the state."""

    interpreter: Interpreter
    eqn: Any
    state: State
    args: Sequence[Any]

    def condition(self, carried: Any, count: Any, values: Sequence[Any]) -> tuple[Any, Any]:
        """Returns (carried part of the state, whether the loop continues)."""
        num_cond = self.eqn.params["cond_nconsts"]
        return self._condition(carried, count, [*self.args[:num_cond], *values])

    def _condition(self, carried: Any, count: Any, operands: Sequence[Any]) -> tuple[Any, Any]:
        state = self._state(carried, count)
        carried, (predicate,) = self._of("cond_jaxpr", state, operands)
        return carried, self.interpreter.goes_on(self.eqn, state, predicate)

    def body(self, carried: Any, count: Any, values: Sequence[Any]) -> Result:
        """Returns (carried part of the state, the values of the next step)."""
        num_cond, num_body = (self.eqn.params[name] for name in ("cond_nconsts", "body_nconsts"))
        operands = [*self.args[num_cond : num_cond + num_body], *values]
        return self._of("body_jaxpr", self._state(carried, count), operands)

    def _of(self, name: str, state: State, operands: Sequence[Any]) -> Result:
        jaxpr = self.eqn.params[name]
        return self.interpreter.inside(self.eqn, jaxpr).evaluate(jaxpr, state, operands)

    def _state(self, carried: Any, count: Any) -> State:
        return State(carried, self.state.broadcast, (*self.state.steps, *([] if count is None else [count])))

    def of_lanes(self) -> Outs:
        """Binds a loop that has a predicate for each lane of a `vmap` again. The state has no carried part."""
        params = dict(self.eqn.params)
        num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
        init = self.args[num_cond + num_body :]
        consts = {"cond": list(self.args[:num_cond]), "body": list(self.args[num_cond : num_cond + num_body])}
        leaves, tree = jax.tree.flatten(self.state)

        def inner(name: str, leaves: Sequence[Any], operands: Sequence[Any]) -> Outs:
            state = jax.tree.unflatten(tree, leaves)
            _, outs = self._of(f"{name}_jaxpr", state, operands)
            return [self.interpreter.goes_on(self.eqn, state, outs[0])] if name == "cond" else list(outs)

        for name, given in consts.items():
            params[f"{name}_jaxpr"] = jax.make_jaxpr(
                lambda leaves, *operands, name=name: inner(name, leaves, operands)
            )(leaves, *given, *init)
            given[:0] = leaves
            params[f"{name}_nconsts"] = len(given)
        return list(self.eqn.primitive.bind(*consts["cond"], *consts["body"], *init, **params))


def _while(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    condition = eqn.params["cond_jaxpr"]
    has_lanes = bool(condition.out_avals[0].shape)
    loop = _While(interpreter, eqn, state, args)
    init = list(args[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] :])
    is_carried = bool(jax.tree.leaves(state.carried))
    if has_lanes and not is_carried:
        return state.carried, loop.of_lanes()
    if is_carried and (has_lanes or any(map(interpreter.concerns, jaxprs.opened(condition).eqns))):
        return _while_behind_condition(loop, init)

    def body(carry: Any) -> Any:
        carried, count, values = carry
        carried, values = loop.body(carried, count, values)
        return carried, _next(count), list(values)

    carried, _, values = jax.lax.while_loop(
        lambda carry: loop.condition(*carry)[1], body, (state.carried, _first(interpreter), init)
    )
    return carried, values


def _while_behind_condition(loop: _While, init: Sequence[Any]) -> Result:
    """Rebuilds the loop with its condition at the end of its body.

    A condition cannot return the carried part of the state. So the condition moves into the body, and the loop carries
    its result; the condition runs as often as before. Lanes whose condition is false keep their values.
    """

    def evaluated(carried: Any, count: Any, values: Sequence[Any]) -> Any:
        carried, predicate = loop.condition(carried, count, values)
        return carried, count, predicate, list(values)

    def body(carry: Any) -> Any:
        carried, count, predicate, values = carry
        carried, changed = loop.body(carried, count, values)
        return evaluated(
            carried, _next(count), [where_live(predicate, *each) for each in zip(changed, values, strict=True)]
        )

    carried, count, predicate, values = evaluated(loop.state.carried, _first(loop.interpreter), init)
    first = carried, count, loop.interpreter.goes_in(predicate), values
    carried, _, _, values = jax.lax.while_loop(lambda carry: carry[2].any() if carry[2].ndim else carry[2], body, first)
    return carried, values


def where_live(predicate: Any, changed: Any, value: Any) -> Any:
    """Selects `changed` or `value` in each lane. A value without lanes, such as a mean over lanes, is always `changed`."""
    if changed.shape[: predicate.ndim] != predicate.shape:
        return changed
    if 0 < predicate.ndim < changed.ndim:
        predicate = jax.lax.broadcast_in_dim(predicate, changed.shape, range(predicate.ndim))
    return jax.lax.select(predicate, changed, value)


def _cond(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    def branch(jaxpr: Any) -> Callable[..., Result]:
        of_branch = interpreter.inside(eqn, jaxpr)
        return lambda state, *values: of_branch.evaluate(jaxpr, state, values)

    branches = list(map(branch, eqn.params["branches"]))
    platforms = eqn.params.get("branches_platforms")
    if platforms is not None:
        named = zip(platforms, branches, strict=True)
        by_name = {name: branch for names, branch in named for name in names or ("default",)}
        result: Result = jax.lax.platform_dependent(state, *args[1:], **by_name)
        return result
    result = jax.lax.switch(interpreter.chosen(eqn, args[0]), branches, state, *args[1:])
    return result  # noqa: RET504 - JAX does not declare the type


# Nested functions.


def _closed_call(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    jaxpr = eqn.params["call_jaxpr"]
    return interpreter.inside(eqn, jaxpr).evaluate(jaxpr, state, args)


def constrained(eqn: Any, values: Sequence[Any], which: str) -> list[Any]:
    """Applies the shardings of a nested `jit`, if it has any: its "in_shardings" or "out_shardings"."""
    given = eqn.params.get(which) or [None] * len(values)
    return [
        jax.lax.with_sharding_constraint(value, sharding) if isinstance(sharding, jax.sharding.Sharding) else value
        for value, sharding in zip(values, given, strict=True)
    ]


def _jit(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    params = eqn.params
    key = id(params["jaxpr"])
    if key not in interpreter.functions:  # keep one function, so that JAX traces and compiles it once

        def named(state: State, *values: Any) -> Result:
            return interpreter.inside(eqn, params["jaxpr"]).evaluate(params["jaxpr"], state, values)

        named.__name__ = named.__qualname__ = params["name"]
        options = dict(params["compiler_options_kvs"]) or None
        jitted = jax.jit(named, keep_unused=params["keep_unused"], inline=params["inline"], compiler_options=options)
        interpreter.functions[key] = params["jaxpr"], jitted
    carried, outs = interpreter.functions[key][1](state, *constrained(eqn, args, "in_shardings"))
    return carried, constrained(eqn, outs, "out_shardings")


def behind_barrier(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the operands behind a barrier that keeps XLA from merging a recomputation with the original."""
    prevented = eqn.params.get("differentiated") and eqn.params.get("prevent_cse")
    chosen = prevented if isinstance(prevented, tuple) else (bool(prevented),) * len(operands)
    if not any(chosen):
        return list(operands)
    kept = iter(jax.lax.optimization_barrier([one for one, prevent in zip(operands, chosen, strict=True) if prevent]))
    return [next(kept) if prevent else one for one, prevent in zip(operands, chosen, strict=True)]


def _remat(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    if eqn.params["differentiated"]:
        jaxpr = eqn.params["jaxpr"]
        return interpreter.inside(eqn, jaxpr).evaluate(jaxpr, state, behind_barrier(eqn, args))
    return _checkpoint(interpreter, eqn, eqn.params, state, args)


def _checkpoint(interpreter: Interpreter, eqn: Any, params: Any, state: State, args: Sequence[Any]) -> Result:
    def again(state: State, *values: Any) -> Result:
        return interpreter.inside(eqn, params["jaxpr"]).evaluate(params["jaxpr"], state, values)

    prevented = params["prevent_cse"]  # one for all operands, or for each
    prevent_cse = prevented if isinstance(prevented, bool) else (False, *prevented)
    result: Result = jax.checkpoint(again, prevent_cse=prevent_cse, policy=params["policy"])(state, *args)
    return result


def _shard_map(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    """Gives all devices the whole state. A shard_map has no carried part, which would have no order among devices."""
    assert not jax.tree.leaves(state.carried)
    params = eqn.params
    leaves, tree = jax.tree.flatten(state)
    of_device = interpreter.inside(eqn, params["jaxpr"])

    def evaluate(leaves: Sequence[Any], *values: Any) -> tuple[Any, ...]:
        return tuple(of_device.evaluate(params["jaxpr"], jax.tree.unflatten(tree, leaves), values)[1])

    on_each: Any = jax.shard_map(
        evaluate,
        mesh=params["mesh"],
        in_specs=(jax.sharding.PartitionSpec(), *params["in_specs"]),
        out_specs=tuple(params["out_specs"]),
        check_vma=params["check_vma"],
        axis_names=params["newly_manual_axes"],
    )
    return state.carried, tuple(on_each(leaves, *args))


def _program_order(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    """Rebuilds a `jax.experimental.overlap.program_order`. The state is not part of the ordered values."""
    overlap: Any = importlib.import_module("jax.experimental.overlap")  # JAX 0.12

    params = eqn.params
    excluded = [place for place, is_excluded in enumerate(params["exclude_mask"]) if is_excluded]
    jaxpr = params["call_jaxpr"]

    def ordered(kept: Sequence[Any], rest: tuple[State, Sequence[Any]]) -> Result:
        state, others = rest
        values = list(kept)
        for place, value in zip(excluded, others, strict=True):
            values.insert(place, value)
        carried, outs = interpreter.inside(eqn, jaxpr).evaluate(jaxpr, state, values)
        return carried, list(outs)

    settings = {"enforce": params["enforce"], "strict_in_out": (params["strict_in"], params["strict_out"])}
    if not params["enforce"]:
        settings = {"enforce": False, "exclude_argnames": "rest"}
    kept = [value for place, value in enumerate(args) if place not in excluded]
    result: Result = overlap.program_order(ordered, **settings)(kept, (state, [args[place] for place in excluded]))
    return result


def _xla_metadata_call(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    xla_metadata: Any = importlib.import_module("jax.experimental.xla_metadata")  # JAX 0.12

    params = eqn.params
    jaxpr, given = params["jaxpr"], params["ad_metadata"]
    function = interpreter.inside(eqn, jaxpr).evaluate
    with_metadata = xla_metadata.xla_metadata_call2(
        lambda state, *values: function(jaxpr, state, values),
        dict(params["xla_metadata"]),
        ad_metadata=given if isinstance(given, str) else dict(given),
    )
    result: Result = with_metadata(state, *args)
    return result


# Functions with derivative rules. The equation's rules are evaluated with the state.


def _no_tangents(carried: Any) -> Any:
    return jax.tree.map(lambda one: np.zeros(jnp.shape(one), jax.dtypes.float0), carried)


def _custom_jvp(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    jaxpr = called(eqn)

    @jax.custom_jvp
    def call(state: State, *values: Any) -> Result:
        return interpreter.inside(eqn, jaxpr).evaluate(jaxpr, state, values)

    @call.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        state, *values = primals
        changes = list(tangents[1:])
        moving = [i for i, tangent in enumerate(changes) if tangent.dtype != jax.dtypes.float0]

        def both(values: Sequence[Any], moves: Sequence[Any]) -> Any:
            all_changes = tuple(jaxprs.with_these(changes, moving, moves))
            return jax.jvp(lambda *xs: _jax_compat.bind_again(eqn, xs), tuple(values), all_changes)

        carried, (outs, moved) = interpreter.derivative(both, state, values, [changes[i] for i in moving])
        return (carried, outs), (_no_tangents(carried), moved)

    result: Result = call(state, *args)
    return result


def _custom_vjp(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    """Applies the equation's rule only to operands with tangents, because the rule may reject derivatives of others."""
    jaxpr = called(eqn)

    @jax.custom_vjp
    def call(state: State, *values: Any) -> Result:
        return interpreter.inside(eqn, jaxpr).evaluate(jaxpr, state, values)

    def forward(state: Any, *primals: Any) -> Any:
        state = jax.tree.map(lambda one: one.value, state)
        moving = tuple(i for i, one in enumerate(primals) if one.perturbed)
        values = [one.value for one in primals]

        def pulled_back(values: Sequence[Any], _: Any) -> Any:
            def of_moving(*moved: Any) -> Any:
                return _jax_compat.bind_again(eqn, jaxprs.with_these(values, moving, moved))

            return jax.vjp(of_moving, *[values[i] for i in moving])

        # `backward` is a function of the cotangents, and a pytree of the residuals.
        carried, (outs, backward) = interpreter.derivative(pulled_back, state, values, ())
        return (carried, outs), (state._replace(carried=()), backward, _Places(moving, len(values)))

    def back(kept: Any, cotangents: Any) -> Any:
        state, backward, places = kept
        residuals, tree = jax.tree.flatten(backward)
        given = [
            jnp.zeros(each.shape, each.dtype) if isinstance(each, SymbolicZero) else each for each in cotangents[1]
        ]
        moves = interpreter.backward(lambda kept, given: jax.tree.unflatten(tree, kept)(given), state, residuals, given)
        return None, *jaxprs.with_these([None] * places.count, places.moving, moves)

    call.defvjp(forward, back, symbolic_zeros=True)
    result: Result = call(state, *args)
    return result


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Places:
    """The indices of the operands that have tangents, and the number of all operands."""

    moving: tuple[int, ...]
    count: int


def _high(interpreter: Interpreter, eqn: Any, state: State, args: Sequence[Any]) -> Result:
    """Rebuilds a primitive of `jax.experimental.hijax`, as which JAX writes checkpoint and derivative rules since 0.12."""
    primitive = _jax_compat.high_primitive(eqn)
    if _jax_compat.is_high_remat(primitive):
        return _checkpoint(interpreter, eqn, primitive.params, state, args)
    return (_custom_jvp if _jax_compat.has_rule(primitive, "jvp") else _custom_vjp)(interpreter, eqn, state, args)


_RULES: dict[Any, Rule] = {
    _primitives.scan_p: _scan,
    _primitives.while_p: _while,
    _primitives.cond_p: _cond,
    _primitives.jit_p: _jit,
    _primitives.closed_call_p: _closed_call,
    _primitives.remat_p: _remat,
    _primitives.custom_jvp_call_p: _custom_jvp,
    _primitives.custom_vjp_call_p: _custom_vjp,
    **({_jax_compat.shard_map_p: _shard_map} if _jax_compat.shard_map_p is not None else {}),
}
_RULES_BY_NAME: dict[str, Rule] = {
    "call": _closed_call,
    "eval_jaxpr": _closed_call,
    "program_order": _program_order,
    "xla_metadata_call": _xla_metadata_call,
}
