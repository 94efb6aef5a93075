# SPDX-License-Identifier: Apache-2.0
"""`callout.threaded` evaluates a function with a token, also one that has derivative rules of its own.

Functions with derivative rules, and rematerialised ones, pass the token on by the rules of this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.extend.core
import numpy as np

from ... import _jax_compat
from ..._base.loggers import logger
from ..._primitives import jaxprs
from ..._primitives.token import first_token, tie
from ..._targets.function_targets import function_name
from .evaluate import INNER, RULES, Threader, has_callbacks, obstacle, plain

F = TypeVar("F", bound=Callable[..., Any])


def threaded(fun: F) -> F:
    """Returns `fun`, whose taps and callbacks run in program order, without the price of JAX's ordered effects.

    JAX waits for an ordered program before it dispatches the next one, and dispatches programs with any effect on its slow
    path. Here the order is a data dependence from each callback to the next, and the program has no effect: it is dispatched
    as fast as one without callbacks, and asynchronously. All taps, io callbacks and debug callbacks of Callout in `fun` are
    put in order, whether they say `ordered=True` or not.

    Use it as the outermost transformation: `jax.jit(callout.threaded(fun))`. `threaded(jax.jit(fun))` works too, but what
    that jit was told about donation and layouts is lost. Derivatives and batches go inside: `threaded(jax.grad(fun))`,
    `threaded(jax.vmap(fun))`; from outside, `vmap` of a cond with callbacks in several branches over its predicate is
    refused, callbacks in derivative rules keep their effects, and a transposed function (`jax.linear_transpose`) calls none.

    What is lost is JAX's promise to keep effects: a program that uses no result of `fun` drops its callbacks. So a function
    that returns nothing is left as it is, and so is one with callbacks inside what cannot pass a token on (such as
    shard_map): one warning of the logger names it.

    Args:
        fun: a function of arrays, traced as by `jax.jit`. Arguments that are no `jax.Array` are passed as they are.

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
    said: set[str] = set()

    def warn(reason: str) -> None:
        if reason not in said:
            said.add(reason)
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
        return plain(jaxpr)(*arrays)
    token, outs = Threader().results(jaxpr, first_token(), arrays)
    return [tie(token, out) for out in outs]


_primitives = jax.extend.core.primitives
Outs = tuple[Any, list[Any]]


def _depends(jaxpr: Any, num_given: int) -> bool:
    """Returns True where a callback needs more than the first `num_given` inputs: a tangent, which has no token."""
    tainted = set(jaxpr.invars[num_given:])
    for eqn in jaxpr.eqns:
        if any(_jax_compat.is_variable(atom) and atom in tainted for atom in eqn.invars):
            if has_callbacks(eqn):
                return True
            tainted.update(eqn.outvars)
    return False


def _custom_jvp(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_jvp
    def call(token: Any, *values: Any) -> Outs:
        return threader.results(eqn.params["call_jaxpr"], token, values)

    @call.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        token, *values = primals
        moving = [i for i, tangent in enumerate(tangents[1:]) if tangent.dtype != jax.dtypes.float0]

        def both(values: Sequence[Any], moves: Sequence[Any]) -> Any:
            changes = list(tangents[1:])
            for i, move in zip(moving, moves, strict=True):
                changes[i] = move
            return jax.jvp(lambda *xs: _jax_compat.bind_again(eqn, xs), tuple(values), tuple(changes))

        moves = [tangents[1 + i] for i in moving]
        token, (outs, changes) = _evaluate(both, token, values, moves)
        return (token, outs), (np.zeros((), jax.dtypes.float0), changes)

    token, outs = call(token, *args)
    return token, outs


def _custom_vjp(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    @jax.custom_vjp
    def call(token: Any, *values: Any) -> Outs:
        return threader.results(eqn.params["call_jaxpr"], token, values)

    def forward(token: Any, *values: Any) -> Any:
        # `backward` is a pytree of the residuals, and the function of the cotangents.
        token, (outs, backward) = _evaluate(
            lambda values, _: jax.vjp(lambda *xs: _jax_compat.bind_again(eqn, xs), *values), token, values, ()
        )
        return (token, outs), backward

    call.defvjp(forward, lambda backward, cotangents: (None, *backward(cotangents[1])))
    token, outs = call(token, *args)
    return token, outs


def _evaluate(function: Any, token: Any, given: Sequence[Any], moves: Sequence[Any]) -> tuple[Any, Any]:
    """Evaluates `function(given, moves)` with the token, or with callbacks as they are where they cannot pass it on."""
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(list(given), list(moves))
    if obstacle(jaxpr) or _depends(jaxpr.jaxpr, len(given)):
        outs = jax.extend.core.jaxpr_as_fun(jaxpr)(*given, *moves)
    else:
        token, outs = Threader().results(jaxpr, token, [*given, *moves])
    return token, jax.tree.unflatten(jax.tree.structure(shape), outs)


def _remat(threader: Threader, eqn: Any, token: Any, args: Sequence[Any]) -> Outs:
    outs: Outs = jaxprs.rematerialized(eqn, threader.results, token, args)
    return outs


RULES.update(
    {
        _primitives.custom_jvp_call_p: _custom_jvp,
        _primitives.custom_vjp_call_p: _custom_vjp,
        _primitives.remat_p: _remat,
    }
)
INNER.update(
    {
        _primitives.custom_jvp_call_p: lambda params: [params["call_jaxpr"]],
        _primitives.custom_vjp_call_p: lambda params: [params["call_jaxpr"]],
        _primitives.remat_p: lambda params: [params["jaxpr"]],
    }
)
