# SPDX-License-Identifier: Apache-2.0
"""The transformation itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from ..._base.loggers import logger
from ..._primitives.token import first_token, tie
from ..._targets.function_targets import function_name
from . import control_flow, derivatives
from .evaluate import Threader, has_callbacks, obstacle, plain

_ = (control_flow, derivatives)  # they say how to evaluate what

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
