# SPDX-License-Identifier: Apache-2.0
"""`callout.threaded` evaluates a function with a token that each callback of Callout passes to the next."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
from jax.extend import core as jex_core

from .. import _jax_compat
from .._base import patches
from .._base.loggers import logger
from .._primitives import call_kinds, jaxprs
from .._primitives.control_flow import Interpreter, Outs, Result, State, rule_of
from .._primitives.effects import IoEffect, OrderedEffect, UnorderedEffect
from .._primitives.inspections import check_p, located_nans_p
from .._primitives.lanes import callback_of, lanes_primitive, with_token
from .._primitives.tap import tap_p
from .._primitives.threaded import threaded_call_p, threaded_tap_p
from .._primitives.token import first_token, once, tie
from .._targets.function_targets import function_name

F = TypeVar("F", bound=Callable[..., Any])


def threaded(fun: F) -> F:
    """Returns `fun` with taps and callbacks in program order, without the cost of JAX's ordered effects.

    JAX waits for an ordered program before it dispatches the next one, and dispatches programs with any effect on its slow
    path. Here the order is a data dependence from each callback to the next, and the program has no effect, so its
    dispatch is as fast as without callbacks, and asynchronous. All taps, io callbacks and debug callbacks of Callout in
    `fun` are ordered, with or without `ordered=True`.

    Use `threaded` as the outermost transformation: `jax.jit(callout.threaded(fun))`. `threaded(jax.jit(fun))` works
    too, but ignores the inner jit's donation and layouts. Derivatives and batches go inside: `threaded(jax.grad(fun))`,
    `threaded(jax.vmap(fun))`. If they are outside, `vmap` over the predicate of a cond with callbacks in several
    branches is an error, callbacks in derivative rules keep their effects, and a transposed function
    (`jax.linear_transpose`) calls none.

    `threaded` gives up JAX's promise to keep effects: a program that uses no result of `fun` drops its callbacks. So a
    function that returns nothing stays unchanged, and so does a function with callbacks inside a primitive that cannot
    pass a token on (such as shard_map); the logger warns of the primitive once.

    Args:
        fun: a function of arrays, traced as by `jax.jit`. Arguments that are no `jax.Array` are passed unchanged.

    Returns:
        A function with the same arguments and results.

    Raises:
        TypeError: `fun` is not callable.

    Example:
        >>> seen = []
        >>> @jax.jit
        ... @callout.threaded
        ... def both(x):
        ...     callout.tap(lambda v: seen.append("first"), x)
        ...     return callout.tap(lambda v: seen.append("second"), 2 * x)
        >>> y = both(jnp.float32(1)); callout.barrier_wait()
        >>> seen
        ['first', 'second']
    """
    if not callable(fun):
        raise TypeError(f"callout.threaded: expected a function, got {fun!r}")
    reported: set[str] = set()

    def warn(reason: str) -> None:
        if reason not in reported:
            reported.add(reason)
            logger.warning("threaded: '%s' keeps JAX's ordered effects: %s", function_name(fun), reason)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]

        def on_arrays(arrays: Sequence[Any]) -> Any:
            merged = list(leaves)
            for place, array in zip(places, arrays, strict=True):
                merged[place] = array
            args, kwargs = jax.tree.unflatten(tree, merged)
            return fun(*args, **kwargs)

        arrays = [leaves[place] for place in places]
        jaxpr, shape = jax.make_jaxpr(on_arrays, return_shape=True)(arrays)
        return jax.tree.unflatten(jax.tree.structure(shape), _results(jaxpr, arrays, warn))

    return call  # type: ignore[return-value]


def _results(jaxpr: Any, arrays: Sequence[Any], warn: Callable[[str], None]) -> list[Any]:
    reason = None
    if has_callbacks(jaxpr):
        if not jaxpr.jaxpr.outvars:
            reason = "it returns nothing that could depend on them"
        elif found := obstacle(jaxpr):
            reason = f"{found} cannot pass a token on"
    if reason is not None:
        warn(reason)
    if reason is not None or not has_callbacks(jaxpr):
        return list(jex_core.jaxpr_as_fun(jaxpr)(*arrays))
    token, outs = Threader().evaluate(jaxpr, State(first_token()), arrays)
    return [tie(token, out) for out in outs]


def has_callbacks(eqn_or_jaxpr: Any) -> bool:
    """Returns True if a tap or a callback of Callout is inside."""
    return any(isinstance(effect, (UnorderedEffect, OrderedEffect, IoEffect)) for effect in eqn_or_jaxpr.effects)


def must_not_repeat(eqn: Any) -> bool:
    """Returns True if the traced function has an io callback, so that nobody may run it twice."""
    return any(isinstance(effect, IoEffect) for effect in eqn.effects)


def _equations(jaxpr: Any) -> Iterator[Any]:
    return filter(has_callbacks, jaxprs.opened(jaxpr).eqns)


def obstacle(jaxpr: Any) -> str | None:
    """Returns the first primitive that has a callback of Callout inside and cannot pass a token on, or None."""
    for eqn in _equations(jaxpr):
        if _callback_of(eqn) is None and (rule_of(eqn) is None or eqn.primitive is _jax_compat.shard_map_p):
            return str(eqn.primitive.name)
        if any(map(_jax_compat.is_state_effect, eqn.effects)):
            return f"{eqn.primitive.name} with a mutable array"
        for inner in jaxprs.inner_jaxprs(eqn):
            if found := obstacle(inner):
                return found
    return None


def _depends(jaxpr: Any, num_given: int) -> bool:
    """Returns True if a callback needs more than the first `num_given` inputs: a tangent, which has no token."""
    tainted = set(jaxpr.invars[num_given:])
    for eqn in jaxpr.eqns:
        if any(_jax_compat.is_variable(atom) and atom in tainted for atom in eqn.invars):
            if has_callbacks(eqn):
                return True
            tainted.update(eqn.outvars)
    return False


class Threader(Interpreter):
    """Evaluates one function. The interpreter's state is the token."""

    def concerns(self, eqn: Any) -> bool:
        """Returns whether an equation is a callback of Callout, or has one inside."""
        return has_callbacks(eqn)

    def apply(self, eqn: Any, state: State, args: Sequence[Any]) -> Result:
        """Evaluates an equation, and returns the next token and the results."""
        bind = _callback_of(eqn) if has_callbacks(eqn) else None
        return super().apply(eqn, state, args) if bind is None else bind(eqn, state.carried, args)

    def chosen(self, eqn: Any, index: Any) -> Any:
        """Returns the index of a cond's branch, guarded: an index for each lane must not change the calls."""
        # Each branch is judged by its own equations, because JAX gives every branch the effects of all branches.
        acting = sum(any(map(has_callbacks, jaxprs.opened(jaxpr).eqns)) for jaxpr in eqn.params["branches"])
        if not patches.is_installed("batching"):
            what = "an io callback" if must_not_repeat(eqn) else "callbacks"
            return once(index, f"a cond with {what}, over its predicate")
        if acting > 1:  # if all branches ran, their order would be undefined
            return once(index, "a cond with callbacks in several branches, over its predicate")
        return index

    def goes_on(self, eqn: Any, state: State, predicate: Any) -> Any:
        """Returns the predicate of a while loop, guarded: lanes must not end at different steps if this repeats a call."""
        del state
        if must_not_repeat(eqn) and not patches.is_installed("batching"):
            return once(predicate, "a while loop with an io callback, over its condition")
        return predicate

    def goes_in(self, predicate: Any) -> Any:
        """Returns the first predicate of a loop with callbacks in its condition, guarded: their lanes would be undefined."""
        return once(predicate, "a while loop with callbacks in its condition, over that")

    def derivative(self, function: Any, state: State, given: Sequence[Any], moves: Sequence[Any]) -> tuple[Any, Any]:
        """Evaluates a derivative rule with the token. Callbacks that cannot pass it on keep their effects."""
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(list(given), list(moves))
        token = state.carried
        if obstacle(jaxpr) or _depends(jaxpr.jaxpr, len(given)):
            outs: Outs = jex_core.jaxpr_as_fun(jaxpr)(*given, *moves)
        else:
            token, outs = self.evaluate(jaxpr, state, [*given, *moves])
        return token, jax.tree.unflatten(jax.tree.structure(shape), outs)

    def backward(self, function: Any, state: State, residuals: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        """Evaluates the backward pass, whose callbacks keep their effects, because no token leaves it."""
        del state
        return function(residuals, cotangents)


# (equation, token, operands) -> the next token, and results
Bind = Callable[[Any, Any, Sequence[Any]], Result]


def _callback_of(eqn: Any) -> Bind | None:
    """Returns the function that binds a callback's equation with a token; None for all other equations."""
    if eqn.primitive in _CALLBACKS:
        return _CALLBACKS[eqn.primitive]
    for callback, bind in ((eqn.primitive, _call), (callback_of(eqn.primitive), _call_lanes)):
        kind = call_kinds.of_primitive(callback)
        if kind is not None:
            return functools.partial(bind, kind)
    return None


def _tap(eqn: Any, token: Any, args: Sequence[Any]) -> Result:
    return threaded_tap_p.bind(token, *args, **eqn.params), list(args)


def _call(kind: call_kinds.CallKind, eqn: Any, token: Any, args: Sequence[Any]) -> Result:
    token, *outs = threaded_call_p.bind(token, *args, **eqn.params, **kind.threaded, where=kind.where)
    return token, outs


def _tap_lanes(eqn: Any, token: Any, args: Sequence[Any]) -> Result:
    (token,) = with_token(threaded_tap_p, token, args, **eqn.params)
    return token, list(args[eqn.params["lanes"].has_mask :])


def _call_lanes(kind: call_kinds.CallKind, eqn: Any, token: Any, args: Sequence[Any]) -> Result:
    token, *outs = with_token(threaded_call_p, token, args, **eqn.params, **kind.threaded, where=kind.where)
    return token, outs


def _inspection(eqn: Any, token: Any, args: Sequence[Any]) -> Result:
    """Binds an inspection unchanged, with its effect, because inspections only fail or warn, in any order."""
    return token, _jax_compat.bind_again(eqn, args)


_CALLBACKS: dict[Any, Bind] = {
    tap_p: _tap,
    lanes_primitive(tap_p): _tap_lanes,
    check_p: _inspection,
    located_nans_p: _inspection,
}
