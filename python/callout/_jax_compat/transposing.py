# SPDX-License-Identifier: Apache-2.0
"""Jaxprs that are linear in their last operands, transposed as JAX transposes what it has linearized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.interpreters import ad

from .versions import MISSING

try:
    from jax._src.interpreters import ad as _ad

    _backward_pass: Any = getattr(_ad, "backward_pass", None)
except ImportError:
    _backward_pass = None
if _backward_pass is None:
    MISSING.append("jax._src.interpreters.ad.backward_pass")


def transpose(jaxpr: Any, residuals: Sequence[Any], operands: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """Returns the cotangents of the operands.

    `jax.linear_transpose` would have the effects of what is rematerialised once more: it takes the jaxpr apart again, into
    what depends on the residuals alone and the rest.

    Args:
        jaxpr: closed, of the residuals and the operands; linear in the operands.
        residuals: their values.
        operands: their types.
        cotangents: of the results; None of those that nothing depends on.
    """
    if _backward_pass is None:
        return _transpose_again(jaxpr, residuals, operands, cotangents)
    values = [*residuals, *map(ad.UndefinedPrimal, operands)]
    given = [
        ad.Zero(result) if each is None else each for each, result in zip(cotangents, jaxpr.out_avals, strict=True)
    ]
    outs = _backward_pass(jaxpr.jaxpr, True, jaxpr.consts, values, given)
    return [ad.instantiate_zeros(out) for out in outs[len(residuals) :]]


def _transpose_again(jaxpr: Any, residuals: Any, operands: Any, cotangents: Any) -> list[Any]:
    import jax.extend.core  # not when the package is imported

    wanted = [i for i, each in enumerate(cotangents) if each is not None]

    def of_wanted(*operands: Any) -> list[Any]:
        outs = jax.extend.core.jaxpr_as_fun(jaxpr)(*residuals, *operands)
        return [outs[i] for i in wanted]

    examples = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in operands]
    return list(jax.linear_transpose(of_wanted, *examples)([cotangents[i] for i in wanted]))
