# SPDX-License-Identifier: Apache-2.0
"""What the primitives that inspect values where they lie have in common: see check.py and located_nans.py.

A batch of inspections is one inspection: its operands have the lanes in front, and its parameters tell which
have. It is carried out as a tap that copies nothing, and has no results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import ad, mlir

from .. import _jax_compat
from . import debug, effects, lowering

_MOST_EXTENTS = 16  # src/sinks/inspectors/check.cc, src/sinks/inspectors/located_nans_payload.cc


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The extents of the batch, which operands have in front. Bit i of a mask: it has the i-th, the outermost first."""

    masks: tuple[int, ...]
    extents: int = 0

    def and_one(self, batched: Sequence[bool]) -> Lanes:
        """Adds an outermost extent, that of the operands told."""
        masks = tuple(mask << 1 | is_batched for mask, is_batched in zip(self.masks, batched, strict=True))
        return Lanes(masks, self.extents + 1)


def escaped(text: str, separators: str) -> str:
    """Returns a field of a payload, in which separators stand as percent escapes."""
    return "".join(f"%{ord(c):02X}" if c in separators or c == "%" or ord(c) < 32 else c for c in text)


def make(name: str, as_taps: Callable[..., tuple[()]]) -> jax.extend.core.Primitive:
    """Returns a primitive that `as_taps`, of its operands and parameters, carries out; without a rule for `vmap`."""
    primitive = jax.extend.core.Primitive(name)
    primitive.multiple_results = True

    def eager(*operands: Any, **params: Any) -> list[Any]:
        return list(as_taps(*operands, **params))

    def abstract_eval(*_: Any, **__: Any) -> tuple[list[Any], set[Any]]:
        return [], effects.observing(False)

    def lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
        def run(*values: Any) -> tuple[()]:
            return as_taps(*values, **params)

        results: Sequence[Any] = mlir.lower_fun(run, multiple_results=True)(ctx, *operands)
        return results

    def jvp(primals: Sequence[Any], _: Any, **params: Any) -> tuple[Any, list[Any]]:
        return primitive.bind(*primals, **params), []

    primitive.def_impl(eager)
    primitive.def_effectful_abstract_eval(abstract_eval)
    lowering.register(primitive, lower)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = lambda _, *operands, **__: [None] * len(operands)
    _jax_compat.register_remat_rule(primitive, debug.partial_eval)
    return primitive


def bind_batch(
    primitive: jax.extend.core.Primitive,
    where: str,
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    lanes: Lanes,
    **params: Any,
) -> tuple[Any, Any]:
    """Binds the inspection with an extent in front, for a rule of `vmap`. NotImplementedError, by `where`: too many."""
    if lanes.extents == _MOST_EXTENTS:
        raise NotImplementedError(f"{where}: inside more than {_MOST_EXTENTS} vmaps")
    front = [x if dim is None else jax.numpy.moveaxis(x, dim, 0) for x, dim in zip(operands, dims, strict=True)]
    primitive.bind(*front, lanes=lanes.and_one([dim is not None for dim in dims]), **params)
    return [], []
