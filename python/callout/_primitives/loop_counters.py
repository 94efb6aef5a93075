# SPDX-License-Identifier: Apache-2.0
"""Finds the counter of a while loop that JAX made from a scan or a fori_loop.

Such a loop is cut into chunks by moving its bound, without a second counter, so that XLA compiles the same loop
otherwise. With a second counter, LLVM was seen to round a few bodies differently.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from .. import _jax_compat
from . import jaxprs


@dataclasses.dataclass(frozen=True)
class Counter:
    """Holds the indices of the counter and of its bound among the carried values, or the bound itself."""

    place: int
    bound_place: int | None
    bound: Any = None

    def end(self, values: Sequence[Any], limit: Any) -> Any:
        """Computes where a chunk of `limit` steps (int32) ends."""
        first, bound, steps = self._numbers(values, limit)
        # If the difference overflows, the rest of the loop becomes one chunk.
        return lax.select(lax.gt(lax.sub(bound, first), steps), lax.add(first, steps), bound)

    def exact_end(self, values: Sequence[Any], limit: Any) -> Any:
        """Computes where a chunk of at most `limit` steps (int32) ends, also where the difference overflows."""
        first, bound, steps = self._numbers(values, limit)
        unsigned = np.dtype(first.dtype.name.replace("int", "uint"))
        left, most = (lax.convert_element_type(value, unsigned) for value in (lax.sub(bound, first), steps))
        is_longer = lax.bitwise_and(lax.gt(bound, first), lax.gt(left, most))
        return lax.select(is_longer, lax.add(first, steps), bound)

    def _numbers(self, values: Sequence[Any], limit: Any) -> tuple[Any, Any, Any]:
        """Returns (counter, bound, `limit`), of one dtype."""
        first = values[self.place]
        bound = self.bound if self.bound_place is None else values[self.bound_place]
        return first, lax.convert_element_type(bound, first.dtype), lax.convert_element_type(limit, first.dtype)


def find_counter(cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int) -> Counter | None:
    """Returns the counter of `while i < bound: ...; i += 1`; None for any other loop."""
    condition, body = jaxprs.opened(cond_jaxpr), jaxprs.opened(body_jaxpr)
    if len(condition.eqns) != 1 or condition.eqns[0].primitive.name != "lt" or condition.constvars:
        return None
    (eqn,) = condition.eqns
    counter, bound = eqn.invars
    kind = getattr(counter, "aval", None)
    if condition.outvars != eqn.outvars or kind is None or kind.shape or kind.dtype not in (np.int32, np.int64):
        return None
    carried = condition.invars[cond_nconsts:]
    place = _place(carried, counter)
    if place is None or not _is_step(body, body.invars[body_nconsts + place], body.outvars[place]):
        return None
    if not _jax_compat.is_variable(bound):
        return Counter(place, None, bound.val)
    bound_place = _place(carried, bound)
    if bound_place is None or body.outvars[bound_place] is not body.invars[body_nconsts + bound_place]:
        return None
    return Counter(place, bound_place)


def _place(variables: Sequence[Any], atom: Any) -> int | None:
    return next((i for i, variable in enumerate(variables) if variable is atom), None)


def _is_step(body: Any, before: Any, after: Any) -> bool:
    """Returns True if `after` is `before + 1`."""
    for eqn in body.eqns:
        if any(variable is after for variable in eqn.outvars):
            first, second = (*eqn.invars, None)[:2]
            is_one = second is not None and not _jax_compat.is_variable(second) and np.all(second.val == 1)
            return bool(eqn.primitive.name == "add" and first is before and is_one)
    return False
