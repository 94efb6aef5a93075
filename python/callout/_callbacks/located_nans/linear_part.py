# SPDX-License-Identifier: Apache-2.0
"""The linear part of a located function's derivative: evaluated or transposed, it is located in turn."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import partial_eval

from ... import _jax_compat
from ..._primitives import jaxprs
from ..._primitives.linear import Linear, with_these

Values = Sequence[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class LinearPart:
    """A function that is linear in its operands: `function(residuals, *operands)` returns a list."""

    function: Callable[..., list[Any]]
    residuals: Values  # their types
    operands: Values  # likewise
    results: Values  # likewise
    traced: Callable[..., list[Any]]  # (function, *arguments, backward=) -> what it returns, located
    backward: bool

    def linear(self) -> Linear:
        """Returns what the primitive takes."""
        types = [
            _jax_compat.array_type(each.shape, each.dtype, _jax_compat.varying_axes(each)) for each in self.results
        ]
        ordered = _jax_compat.ordered_effects(self._whole.jaxpr)
        return Linear(self._forward, self._transposed, tuple(types), ordered, self._narrow)

    def depends(self) -> list[bool]:
        """Tells for each result whether operands move it."""
        return list(map(bool, self._moved_by))

    def _forward(self, residuals: Values, operands: Values) -> list[Any]:
        def run(residuals: Values, operands: Values) -> list[Any]:
            return self.function(residuals, *operands)

        return self.traced(run, list(residuals), list(operands), backward=self.backward)

    def _transposed(self, residuals: Values, types: Values, cotangents: Values) -> list[Any]:
        wanted = [i for i, each in enumerate(cotangents) if each is not None]
        if not wanted:
            return [None] * len(types)
        moving = frozenset().union(*(self._moved_by[i] for i in wanted))

        def back(residuals: Values, given: Values) -> list[Any]:
            all_given = with_these([None] * len(cotangents), wanted, given)
            outs = _jax_compat.transpose(self._whole, residuals, types, all_given)
            return [each for i, each in enumerate(outs) if i in moving]

        outs = iter(self.traced(back, list(residuals), [cotangents[i] for i in wanted], backward=True))
        return [next(outs) if i in moving else None for i in range(len(types))]

    def _narrow(self, used: Sequence[bool]) -> tuple[list[bool], Linear | None]:
        count = len(self.residuals)
        kept = [True] * count + [False] * len(self.operands)
        jaxpr, taken = partial_eval.dce_jaxpr(self._whole.jaxpr, list(used), kept)
        taken = taken[count:]
        if not jaxpr.eqns and not any(used):
            return taken, None
        evaluate = jax.extend.core.jaxpr_as_fun(jax.extend.core.ClosedJaxpr(jaxpr, self._whole.consts))
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
        """Finds for each result the operands that move it."""
        count = len(self.residuals)
        return [frozenset(i - count for i in on if i >= count) for on in jaxprs.dependences(self._whole)]
