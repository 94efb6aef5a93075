# SPDX-License-Identifier: Apache-2.0
"""Rules of differentiation that a call carries itself."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.custom_derivatives import linear_call

from .._base.arguments import read
from .._primitives.varying import alike


class _Inherited(threading.local):
    vmap_method: str | None = None


_inherited = _Inherited()


def inherited_vmap_method(vmap_method: str | None, allowed: Sequence[str | None]) -> str | None:
    """Returns `vmap_method`; or, for a call without one inside a rule, that of the call whose rule it is, if `allowed`."""
    outer = _inherited.vmap_method
    return outer if vmap_method is None and outer in allowed else vmap_method


def _passing_on(rule: Callable[..., Any], vmap_method: str | None) -> Callable[..., Any]:
    """Returns `rule`, inside which calls inherit `vmap_method`."""
    if vmap_method is None:
        return rule

    @functools.wraps(rule)
    def with_method(*args: Any, **constants: Any) -> Any:
        outer, _inherited.vmap_method = _inherited.vmap_method, vmap_method
        try:
            return rule(*args, **constants)
        finally:
            _inherited.vmap_method = outer

    return with_method


def call_with_rules(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    constants: Mapping[str, Any],
    *,
    jvp: Callable[..., Any] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    transpose: Callable[..., Any] | None = None,
    vmap_method: str | None = None,
) -> Any:
    """Returns `call(*args)`, which knows its derivative.

    Args:
        call: a function of arrays.
        args: what it is called with.
        constants: passed to the rules by keyword.
        jvp: `jvp(primals, tangents, **constants)` returns (results, their tangents).
        vjp: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)` returns a
            cotangent an argument).
        transpose: `transpose(cotangents, **constants)` returns a cotangent an argument; says that `call` is linear.
        vmap_method: what calls inside the rules have if they say nothing else.
    """
    if jvp is not None or vjp is not None or transpose is not None:
        args = alike(jax.tree.map(read, args))
    if jvp is not None:
        jvp = _passing_on(jvp, vmap_method)
        differentiable = jax.custom_jvp(call)
        differentiable.defjvp(lambda primals, tangents: jvp(primals, tangents, **constants))
        return differentiable(*args)
    if vjp is not None:
        forward, backward = (_passing_on(rule, vmap_method) for rule in vjp)
        reversible = jax.custom_vjp(call)
        reversible.defvjp(lambda *values: forward(*values, **constants), backward)
        return reversible(*args)
    if transpose is not None:
        transpose = _passing_on(transpose, vmap_method)

        def transposed(_: Any, cotangents: Any) -> tuple[Any, ...]:
            back = transpose(cotangents, **constants)
            return tuple(back) if isinstance(back, (tuple, list)) else (back,)

        return linear_call(lambda _, values: call(*values), transposed, (), args)
    return call(*args)
