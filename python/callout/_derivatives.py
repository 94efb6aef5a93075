# SPDX-License-Identifier: Apache-2.0
"""Rules of differentiation that a call carries itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.custom_derivatives import linear_call

from ._arguments import read
from ._primitives.varying import alike


def call_with_rules(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    constants: Mapping[str, Any],
    *,
    jvp: Callable[..., Any] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    transpose: Callable[..., Any] | None = None,
) -> Any:
    """`call(*args)`, which knows its derivative.

    Args:
        call: a function of arrays.
        args: what it is called with.
        constants: passed to the rules by keyword.
        jvp: `jvp(primals, tangents, **constants)` returns (results, their tangents).
        vjp: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)` returns a
            cotangent an argument).
        transpose: `transpose(cotangents, **constants)` returns a cotangent an argument; says that `call` is linear.
    """
    if jvp is not None or vjp is not None or transpose is not None:
        args = alike(jax.tree.map(read, args))
    if jvp is not None:
        differentiable = jax.custom_jvp(call)
        differentiable.defjvp(lambda primals, tangents: jvp(primals, tangents, **constants))
        return differentiable(*args)
    if vjp is not None:
        forward, backward = vjp
        reversible = jax.custom_vjp(call)
        reversible.defvjp(lambda *values: forward(*values, **constants), backward)
        return reversible(*args)
    if transpose is not None:

        def transposed(_: Any, cotangents: Any) -> tuple[Any, ...]:
            back = transpose(cotangents, **constants)
            return tuple(back) if isinstance(back, (tuple, list)) else (back,)

        return linear_call(lambda _, values: call(*values), transposed, (), args)
    return call(*args)
