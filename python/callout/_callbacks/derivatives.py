# SPDX-License-Identifier: Apache-2.0
"""Attaches the user's rules of differentiation to a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
from jax.custom_derivatives import linear_call

from .._base.arguments import read
from .._primitives.varying import alike

_inherited: ContextVar[str | None] = ContextVar("inherited_vmap_method", default=None)


def inherited_vmap_method(vmap_method: str | None, allowed: Sequence[str | None]) -> str | None:
    """Returns `vmap_method`. Inside a rule, a call without one inherits the method of the rule's call, if `allowed`."""
    if vmap_method is not None:
        return vmap_method
    outer = _inherited.get()
    return outer if outer in allowed else None


def _passing_on(rule: Callable[..., Any], vmap_method: str | None) -> Callable[..., Any]:
    """Wraps `rule` so that calls inside of it inherit `vmap_method`."""
    if vmap_method is None:
        return rule

    @functools.wraps(rule)
    def with_method(*args: Any, **constants: Any) -> Any:
        token = _inherited.set(vmap_method)
        try:
            return rule(*args, **constants)
        finally:
            _inherited.reset(token)

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
    """Returns `call(*args)` with the given rules of differentiation.

    Args:
        call: a function of arrays.
        args: the arguments of `call`.
        constants: passed to the rules by keyword.
        jvp: `jvp(primals, tangents, **constants)` returns (results, their tangents).
        vjp: (`forward(*args, **constants)` returns (results, residuals), `backward(residuals, cotangents)` returns one
            cotangent for each argument).
        transpose: `transpose(cotangents, **constants)` returns one cotangent for each argument; a promise that `call`
            is linear.
        vmap_method: the default `vmap_method` of calls inside the rules.
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
