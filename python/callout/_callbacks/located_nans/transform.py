# SPDX-License-Identifier: Apache-2.0
"""`callout.locate_nans` transforms a function, and locates NaNs in the function's derivatives too.

The linear part of a located function's derivative is evaluated or transposed, and is located in turn.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import typing
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.extend import core as jex_core
from jax.interpreters import partial_eval

from ... import _jax_compat
from ..._base import patches
from ..._base.arguments import is_ref
from ..._base.config import config
from ..._primitives import jaxprs, linear
from ..._primitives.control_flow import State
from ..._primitives.linear import Linear, saved
from .evaluate import Evaluation, Settings, unchanged
from .nan_sources import is_inexact, mutable_arrays
from .user_lines import Granularity, Surroundings, rule_lines_kept

F = TypeVar("F", bound=Callable[..., Any])
_MOST_KEPT = 32


def locate_nans(fn: F, *, granularity: Granularity = "line", stop: bool = False, infinities: bool = True) -> F:
    """Returns `fn` with reports of the lines of code where a NaN or an infinity first appears.

    A `NonFiniteWarning` reports an operation that makes such a value out of finite inputs: the line of code, the
    operation, shapes, device, shard, lanes, the steps of the loops around, forward or backward, and a sample of the
    inputs. Values are read in place when they leave their line, without a copy, a branch or a second evaluation. The
    transformation works inside and outside of `jit`, `grad` and `vmap`. `callout.config.locate_nans` switches it off.

    Args:
        fn: a function of arrays, traced as by `jax.jit`. Arguments that are no `jax.Array` are passed unchanged.
        granularity: the units whose results are inspected: each "line" of the user's code; each "operation", which
            leaves XLA little to fuse; each "function"; or each "module", by the named scopes.
        stop: fail the program with `NonFiniteError` instead.
        infinities: report infinities, too. A NaN from infinite inputs is reported in any case, unless the origin of the
            infinite inputs was reported.

    Returns:
        A function with the same arguments and results.

    Raises:
        TypeError: `fn` is not callable. ValueError: an unknown granularity.

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
        try:  # outside of a trace, jit is faster than one operation at a time
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
    """Returns a key that distinguishes the constant from others, such as 0.0 from -0.0."""
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value


def _call(
    fn: Callable[..., Any], tree: Any, places: Sequence[int], others: Sequence[Any], arrays: Sequence[Any]
) -> Any:
    given, rest = dict(zip(places, arrays, strict=True)), iter(others)
    leaves = [given[i] if i in given else next(rest) for i in range(len(places) + len(others))]
    args, kwargs = jax.tree.unflatten(tree, leaves)
    return fn(*args, **kwargs)


def _traced(settings: Settings, function: Callable[..., Any], *args: Any, backward: bool = False) -> Any:
    """Evaluates `function(*args)` with inspections."""
    patches.ensure("rule_lines")
    with rule_lines_kept():
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    outs = _located(jaxpr, settings, jax.tree.leaves(args), backward)
    return jax.tree.unflatten(jax.tree.structure(shape), outs)


def _located(closed: Any, settings: Settings, args: Sequence[Any], backward: bool) -> list[Any]:
    """Evaluates a closed jaxpr with inspections. Its derivatives are those of the original jaxpr, located in turn.

    JAX has no custom derivative rules for functions that write to mutable arrays. The derivatives of such a jaxpr are
    those of the evaluation with inspections.
    """
    count = len(closed.consts)
    if mutable_arrays.in_jaxpr(closed):
        return list(Evaluation(settings, Surroundings(backward=backward)).evaluate(closed, State(), args)[1])

    @jax.custom_jvp
    def call(*args: Any) -> list[Any]:
        whole = jex_core.ClosedJaxpr(closed.jaxpr, args[:count])
        return list(Evaluation(settings, Surroundings(backward=backward)).evaluate(whole, State(), args[count:])[1])

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
            given = jaxprs.with_these(values, moving, moved)
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
    zeros = list(map(SymbolicZero, whole.results))  # results that do not depend on `moved` have zero tangents
    spread = [changes.pop(0) if is_used else zero for is_used, zero in zip(used, zeros, strict=True)]
    results, moves = [], []
    for is_smooth in smooth:
        results.append((outs if is_smooth else others).pop(0))
        moves.append(spread.pop(0) if is_smooth else np.zeros(jnp.shape(results[-1]), jax.dtypes.float0))
    return results, moves


def _moves(tangent: Any) -> bool:
    """Returns whether a derivative is wanted, such as for weights but not for data."""
    return not isinstance(tangent, SymbolicZero) and jax.dtypes.result_type(tangent) != jax.dtypes.float0


Values = Sequence[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class LinearPart:
    """A function that is linear in its operands: `function(residuals, *operands)` returns a list."""

    function: Callable[..., list[Any]]
    residuals: Values  # types of the residuals
    operands: Values  # types of the operands
    results: Values  # types of the results
    traced: Callable[..., Any]  # (function, *arguments, backward=) -> the located results
    backward: bool

    def linear(self) -> Linear:
        """Returns the parameter of the primitive."""
        types = [
            _jax_compat.array_type(each.shape, each.dtype, _jax_compat.varying_axes(each)) for each in self.results
        ]
        ordered = _jax_compat.ordered_effects(self._whole.jaxpr)
        return Linear(self._forward, self._transposed, tuple(types), ordered, self._narrow)

    def depends(self) -> list[bool]:
        """Returns for each result whether it depends on operands."""
        return list(map(bool, self._moved_by))

    def _forward(self, residuals: Values, operands: Values) -> list[Any]:
        def run(residuals: Values, operands: Values) -> list[Any]:
            return self.function(residuals, *operands)

        outs: list[Any] = self.traced(run, list(residuals), list(operands), backward=self.backward)
        return outs

    def _transposed(self, residuals: Values, types: Values, cotangents: Values) -> tuple[list[Any], Any]:
        wanted = [i for i, each in enumerate(cotangents) if each is not None]
        if not wanted:
            return [None] * len(types), {}
        moving = frozenset().union(*(self._moved_by[i] for i in wanted))

        def back(residuals: Values, given: Values) -> tuple[list[Any], Any]:
            all_given = jaxprs.with_these([None] * len(cotangents), wanted, given)
            outs, logs = _jax_compat.transpose(self._whole, residuals, types, all_given)
            return [each for i, each in enumerate(outs) if i in moving], logs

        found, logs = self.traced(back, list(residuals), [cotangents[i] for i in wanted], backward=True)
        outs = iter(found)
        return [next(outs) if i in moving else None for i in range(len(types))], logs

    def _narrow(self, used: Sequence[bool]) -> tuple[list[bool], Linear | None]:
        count = len(self.residuals)
        kept = [True] * count + [False] * len(self.operands)
        jaxpr, taken = partial_eval.dce_jaxpr(self._whole.jaxpr, list(used), kept)
        taken = taken[count:]
        if not jaxpr.eqns and not any(used):
            return taken, None
        evaluate = jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(jaxpr, self._whole.consts))
        part = dataclasses.replace(
            self,
            function=lambda residuals, *operands: evaluate(*residuals, *operands),
            operands=list(itertools.compress(self.operands, taken)),
            results=list(itertools.compress(self.results, used)),
        )
        return taken, part.linear()

    @functools.cached_property
    def _whole(self) -> Any:
        return jax.make_jaxpr(self.function)(self.residuals, *self.operands)

    @functools.cached_property
    def _moved_by(self) -> list[frozenset[int]]:
        """Returns for each result the operands that it depends on."""
        count = len(self.residuals)
        return [frozenset(i - count for i in on if i >= count) for on in jaxprs.dependences(self._whole)]
