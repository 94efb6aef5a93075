# SPDX-License-Identifier: Apache-2.0
"""`callout.locate_nans`, and what it makes of derivatives."""

from __future__ import annotations

import functools
import itertools
import typing
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ... import _jax_compat
from ..._base import patches
from ..._base.arguments import is_ref
from ..._base.config import config
from ..._primitives import linear
from ..._primitives.linear import saved
from . import control_flow, rule_lines
from .evaluate import Evaluation, Settings, unchanged
from .linear_part import LinearPart
from .nan_sources import is_inexact, mutable_arrays
from .user_lines import Granularity, Surroundings

_ = control_flow  # it says how to evaluate what

F = TypeVar("F", bound=Callable[..., Any])
_MOST_KEPT = 32


def locate_nans(fn: F, *, granularity: Granularity = "line", stop: bool = False, infinities: bool = True) -> F:
    """Returns `fn`, which tells where in its code a NaN or an infinity begins, while it runs.

    An operation that makes one out of finite inputs is reported with the line of the code, the operation, shapes, device,
    shard, lanes, the steps of the loops around, forward or backward, and a sample of its inputs, by a `NonFiniteWarning`.
    Values are looked at where they lie, when they leave their line; nothing is copied, nothing runs again, and there is no
    branch. It works inside and outside of `jit`, `grad` and `vmap`. `callout.config.locate_nans` switches it off.

    Args:
        fn: a function of arrays, traced as by `jax.jit`. Arguments that are no `jax.Array` are passed as they are.
        granularity: of what the results are looked at: each "line" of the user's code; each "operation", which leaves XLA
            little to fuse; each "function"; or each "module", as named scopes tell them.
        stop: fail the program with `NonFiniteError` instead.
        infinities: report infinities, too. NaN that comes out of infinite inputs is reported either way, unless what made
            those infinite was.

    Returns:
        A function with the same arguments and results.

    Raises:
        TypeError: `fn` is not callable. ValueError: another granularity.

    Example:
        >>> def loss(x):
        ...     return jnp.log(x).sum()
        >>> with callout.reraise():
        ...     jax.jit(callout.locate_nans(loss, stop=True))(jnp.array([1.0, -1.0])).block_until_ready()
        Traceback (most recent call last):
        callout.NonFiniteError: ...
    """
    if not callable(fn):
        raise TypeError(f"callout.locate_nans: expected a function, got {fn!r}")
    if granularity not in (known := typing.get_args(Granularity)):
        raise ValueError(f"callout.locate_nans: granularity must be one of {list(known)}, got {granularity!r}")
    settings = Settings(granularity, bool(stop), bool(infinities))
    compiled: OrderedDict[Any, Any] = OrderedDict()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not config.locate_nans:
            return fn(*args, **kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs))
        places = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray)) or is_ref(leaf))
        arrays = [leaves[place] for place in places]
        others = [leaf for i, leaf in enumerate(leaves) if i not in places]

        def run(arrays: Sequence[Any]) -> Any:
            return _traced(settings, functools.partial(_call, fn, tree, places, others), arrays)

        if any(isinstance(array, jax.core.Tracer) for array in arrays) or _jax_compat.jit_is_disabled():
            return run(arrays)
        try:  # not in a trace: one operation at a time would take its time
            key = (tree, places, tuple(map(_constant, others)))
            jitted = compiled.pop(key, None) or jax.jit(run)
        except TypeError:
            return jax.jit(run)(arrays)
        compiled[key] = jitted
        if len(compiled) > _MOST_KEPT:
            compiled.popitem(last=False)
        return jitted(arrays)

    return call  # type: ignore[return-value]


def _constant(value: Any) -> Any:
    """Returns what tells it from others: 0.0 is another constant than -0.0."""
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value


def _call(
    fn: Callable[..., Any], tree: Any, places: Sequence[int], others: Sequence[Any], arrays: Sequence[Any]
) -> Any:
    given, rest = dict(zip(places, arrays, strict=True)), iter(others)
    leaves = [given[i] if i in given else next(rest) for i in range(len(places) + len(others))]
    args, kwargs = jax.tree.unflatten(tree, leaves)
    return fn(*args, **kwargs)


def _traced(settings: Settings, function: Callable[..., Any], *args: Any, backward: bool = False) -> Any:
    """Evaluates `function(*args)`, located."""
    patches.ensure("rule_lines")
    with rule_lines.kept():
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    outs = _located(jaxpr, settings, jax.tree.leaves(args), backward)
    return jax.tree.unflatten(jax.tree.structure(shape), outs)


def _located(closed: Any, settings: Settings, args: Sequence[Any], backward: bool) -> list[Any]:
    """Returns a closed jaxpr's results. Its derivatives are those of the jaxpr as it was, located in turn.

    JAX has no rules of derivatives whose function writes to mutable arrays: then they are those of what is evaluated here.
    """
    count = len(closed.consts)
    if mutable_arrays.in_jaxpr(closed):
        return Evaluation(settings).jaxpr(closed, Surroundings(backward=backward), args)

    @jax.custom_jvp
    def call(*args: Any) -> list[Any]:
        whole = jax.extend.core.ClosedJaxpr(closed.jaxpr, args[:count])
        return Evaluation(settings).jaxpr(whole, Surroundings(backward=backward), args[count:])

    @functools.partial(call.defjvp, symbolic_zeros=True)
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return _derivative(closed.jaxpr, settings, count, primals, tangents, backward)

    return list(map(saved, call(*closed.consts, *args)))


def _derivative(
    jaxpr: Any, settings: Settings, count: int, primals: Sequence[Any], tangents: Sequence[Any], backward: bool
) -> tuple[list[Any], list[Any]]:
    moving = [i for i, each in enumerate(tangents) if _moves(each)]
    smooth = [is_inexact(var) for var in jaxpr.outvars]
    tree: Any = None

    def linearized(*values: Any) -> Any:
        nonlocal tree

        def of_moving(*moved: Any) -> tuple[list[Any], list[Any]]:
            given = linear.with_these(values, moving, moved)
            outs = unchanged(jaxpr, given[:count], given[count:])
            pairs = list(zip(outs, smooth, strict=True))
            return [out for out, is_smooth in pairs if is_smooth], [out for out, is_smooth in pairs if not is_smooth]

        outs, function, others = jax.linearize(of_moving, *[values[i] for i in moving], has_aux=True)
        residuals, tree = jax.tree.flatten(function)
        return outs, others, residuals

    outs, others, residuals = _traced(settings, linearized, *primals, backward=backward)
    moved = [tangents[i] for i in moving]

    def function(residuals: Sequence[Any], *operands: Any) -> list[Any]:
        return jax.tree.unflatten(tree, residuals)(*operands)  # type: ignore[no-any-return]

    of_residuals, of_moved, of_outs = (list(map(jax.typeof, values)) for values in (residuals, moved, outs))
    traced = functools.partial(_traced, settings)
    part = LinearPart(function, of_residuals, of_moved, of_outs, traced, backward)
    used, whole = part.depends(), part.linear()
    taken, left = ([True] * len(moved), whole) if all(used) else whole.narrow(used)
    changes = linear.bind(left, residuals, list(itertools.compress(moved, taken))) if left else []
    zeros = list(map(SymbolicZero, whole.results))  # what follows does not move by what does not
    spread = [changes.pop(0) if is_used else zero for is_used, zero in zip(used, zeros, strict=True)]
    results, moves = [], []
    for is_smooth in smooth:
        results.append((outs if is_smooth else others).pop(0))
        moves.append(spread.pop(0) if is_smooth else np.zeros(jnp.shape(results[-1]), jax.dtypes.float0))
    return results, moves


def _moves(tangent: Any) -> bool:
    """Tells whether a derivative is wanted: not of data where weights are trained."""
    return not isinstance(tangent, SymbolicZero) and jax.dtypes.result_type(tangent) != jax.dtypes.float0
