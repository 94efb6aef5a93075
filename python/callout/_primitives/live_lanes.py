# SPDX-License-Identifier: Apache-2.0
"""Batching rules for cond with a predicate for each lane, and for while loops whose lanes end at different steps.

JAX runs all branches with all lanes and selects results; it runs a loop's body with all lanes until the last one has
finished. This is correct for computation, but not for callbacks. So a branch, or a loop's body, gets a boolean for each
lane that tells whether the lane is live: whether the program without `vmap` would run this code. Callbacks run for live
lanes only (masking.py). JAX's own rules handle everything else, and conds and loops that have no callback of Callout or
one predicate for all lanes.

A loop carries its predicate, so that its condition runs once in each iteration. This also fixes loops whose condition
has an ordered effect: JAX's lowering then ignores which lanes have finished, and they keep changing
(jax/_src/lax/control_flow/loops.py, `_while_lowering`; JAX 0.10 to 0.12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex_core
from jax.interpreters import batching

from .. import _jax_compat
from .._base.patches import Place
from .effects import OrderedEffect
from .jaxprs import opened
from .masking import has_callbacks, masked

_cond_p = jex_core.primitives.cond_p
_while_p = jex_core.primitives.while_p


def _batched(function: Callable[..., list[Any]], axis_data: Any, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    """Batches a function by JAX's rules. Returns (results, their dimensions)."""
    outs = jax.vmap(
        function,
        in_axes=tuple(dims),
        axis_name=axis_data.name,
        axis_size=axis_data.size,
        spmd_axis_name=axis_data.spmd_name,
    )(*args)
    return outs, [0] * len(outs)


def _batch_cond(
    _original: Any,
    axis_data: Any,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    branches: Sequence[Any],
    **params: Any,
) -> Any:
    as_jax = (
        dims[0] is None
        or "branches_platforms" in params
        or not any(map(has_callbacks, branches))
        or any(map(_jax_compat.is_refused_in_vmap, branches))
    )
    if as_jax:
        return NotImplemented

    def select(index: Any, *operands: Any) -> list[Any]:
        results = []
        for place, branch in enumerate(branches):
            live = index == jax.numpy.asarray(place, index.dtype)
            # Like JAX's rule, stop the gradient of a branch that was not taken.
            values = [jax.lax.select(live, x, jax.lax.stop_gradient(x)) for x in operands]
            results.append(masked(branch, live, values))
        return [jax.lax.select_n(index, *cases) for cases in zip(*results, strict=True)]

    return _batched(select, axis_data, args, dims)


def _plain(jaxpr: Any, _: Any, args: Sequence[Any]) -> list[Any]:
    return list(jex_core.jaxpr_as_fun(jaxpr)(*args))


def _used(jaxpr: Any, outs: set[int]) -> set[int]:
    """Returns the indices of a jaxpr's operands that the results `outs` depend on."""
    jaxpr = opened(jaxpr)
    needed = {jaxpr.outvars[place] for place in outs if _jax_compat.is_variable(jaxpr.outvars[place])}
    for eqn in reversed(jaxpr.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(atom for atom in eqn.invars if _jax_compat.is_variable(atom))
    return {place for place, var in enumerate(jaxpr.invars) if var in needed}


class _Loop:
    """A while loop of one lane, before batching."""

    def __init__(self, params: dict[str, Any]):
        self.cond_jaxpr, self.body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
        self.num_cond, self.num_body = params["cond_nconsts"], params["body_nconsts"]
        self.is_ordered = any(isinstance(effect, OrderedEffect) for effect in self.cond_jaxpr.effects)

    def first(self, *args: Any) -> list[Any]:
        """Evaluates the loop's condition on the loop's operands, to decide whether a first step runs."""
        return _plain(self.cond_jaxpr, None, self._of_condition(args))

    def first_of_lane(self, live: Any, *args: Any) -> list[Any]:
        """Evaluates the condition like `first`, but `vmap` calls its callbacks once for each lane.

        `live` is True for every lane. It is the mask of the callbacks, and gives them the batch's dimension.
        """
        for place in self._deciding():  # also adds batches of other vmaps whose predicates will differ
            value = args[place]
            if not jax.dtypes.issubdtype(jax.typeof(value).dtype, jax.dtypes.extended):
                live = live & (jax.numpy.all(value == value) | np.True_)
        return masked(self.cond_jaxpr, live, self._of_condition(args))

    def _deciding(self) -> list[int]:
        """Returns the indices of the operands that the predicate depends on in any step."""
        num_consts = self.num_cond + self.num_body
        places = {place if place < self.num_cond else place + self.num_body for place in _used(self.cond_jaxpr, {0})}
        while True:
            outs = {place - num_consts for place in places if place >= num_consts}
            more = places | {self.num_cond + place for place in _used(self.body_jaxpr, outs)}
            if more == places:
                return sorted(places)
            places = more

    def _of_condition(self, args: Sequence[Any]) -> list[Any]:
        return [*args[: self.num_cond], *args[self.num_cond + self.num_body :]]

    def carrying_predicate(self, lanes_differ: bool) -> dict[str, Any]:
        """Returns the parameters of a loop with all constants in its body, and the predicate as first carried value.

        If lanes differ, the predicate also decides whether callbacks run.
        """
        evaluate = masked if lanes_differ else _plain
        carried = self.body_jaxpr.in_avals[self.num_body :]
        live = self.cond_jaxpr.out_avals[0]

        def step(*args: Any) -> list[Any]:
            consts = args[: self.num_cond + self.num_body]
            live, *old = args[len(consts) :]
            values = evaluate(self.body_jaxpr, live, [*consts[self.num_cond :], *old])
            if self.is_ordered:  # callbacks of the whole batch see finished lanes unchanged
                values = [jax.numpy.where(live, one, other) for one, other in zip(values, old, strict=True)]
            return [*evaluate(self.cond_jaxpr, live, [*consts[: self.num_cond], *values]), *values]

        avals = [*self.cond_jaxpr.in_avals[: self.num_cond], *self.body_jaxpr.in_avals[: self.num_body], live, *carried]
        return {
            "cond_jaxpr": jax.make_jaxpr(lambda live, *_: [live])(live, *carried),
            "body_jaxpr": jax.make_jaxpr(step)(*avals),
            "cond_nconsts": 0,
            "body_nconsts": self.num_cond + self.num_body,
        }


def _lanes_differ(
    original: Any, axis_data: Any, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> bool:
    """Returns whether JAX would give each lane of the loop its own predicate."""
    trial = dict(params)
    for name in ("cond_jaxpr", "body_jaxpr"):  # masked callbacks always have a batching rule
        trial[name] = jax.make_jaxpr(lambda *args, jaxpr=params[name]: masked(jaxpr, np.True_, args))(
            *params[name].in_avals
        )
    jaxpr = jax.make_jaxpr(lambda *args: original(axis_data, args, dims, **trial)[0])(*args)
    (loop,) = (eqn for eqn in jaxpr.eqns if eqn.primitive is _while_p)
    return len(loop.params["cond_jaxpr"].out_avals[0].shape) > 0


def _batch_while(original: Any, axis_data: Any, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    loop = _Loop(params)
    jaxprs = (loop.cond_jaxpr, loop.body_jaxpr)
    # A loop whose predicate has dimensions was batched here before: its callbacks have a mask, which is batched with
    # it.
    is_new = not loop.cond_jaxpr.out_avals[0].shape
    if not is_new or all(dim is None for dim in dims) or any(map(_jax_compat.is_refused_in_vmap, jaxprs)):
        return NotImplemented
    concerns = loop.is_ordered or any(map(has_callbacks, jaxprs))
    lanes_differ = concerns and _lanes_differ(original, axis_data, args, dims, params)
    if not lanes_differ and not loop.is_ordered:
        return NotImplemented
    if lanes_differ:
        everywhere = jax.numpy.ones(axis_data.size, bool)
        like, dim = next((arg, dim) for arg, dim in zip(args, dims, strict=True) if dim is not None)
        everywhere = _jax_compat.spread_like(everywhere, 0, like, dim)
        first, first_dims = _batched(loop.first_of_lane, axis_data, [everywhere, *args], [0, *dims])
    else:
        first, _ = _batched(loop.first, axis_data, args, dims)
        first, first_dims = [jax.lax.index_in_dim(first[0], 0, keepdims=False)], [None]
    num_consts = loop.num_cond + loop.num_body
    values, value_dims = (
        [*args[:num_consts], *first, *args[num_consts:]],
        [*dims[:num_consts], *first_dims, *dims[num_consts:]],
    )
    outs, out_dims = original(axis_data, values, value_dims, **loop.carrying_predicate(lanes_differ))
    return outs[1:], out_dims[1:]


def hooked() -> list[Place]:
    """Returns the places of JAX's rules, which still apply if the lanes have one predicate or no callback is inside."""
    rules = batching.fancy_primitive_batchers
    return [Place(rules, _cond_p, before=_batch_cond), Place(rules, _while_p, before=_batch_while)]
