# SPDX-License-Identifier: Apache-2.0
"""Rejects calls in the functions of reductions and scatters, which XLA cannot compile.

XLA crashes the process ("Check failed: operand_maps.size() == 1"; JAX 0.10.2 to 0.12.0.1). JAX rejects functions with
effects, so only calls without effects reach XLA, including JAX's own callbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .jaxprs import Search, inner_jaxprs, opened

_CALLS = ("callout_call", "callout_buffer_callback", "callout_function", "callout_ffi_call")
_WITH_FUNCTIONS = ("reduce", "reduce_window", "select_and_scatter", "scatter")


def _is_call(eqn: Any) -> bool:
    return eqn.primitive.name in _CALLS


_calls = Search(_is_call)


def _calls_inside(eqn: Any) -> bool:
    return eqn.primitive.name in _WITH_FUNCTIONS and _calls.inside(eqn)


_refused = Search(_calls_inside)


def _first(search: Search, is_such: Callable[[Any], bool], jaxpr: Any) -> Any:
    """Returns the first equation in a jaxpr that `search` finds."""
    eqn = next(each for each in opened(jaxpr).eqns if search.in_equation(each))
    return eqn if is_such(eqn) else _first(search, is_such, next(filter(search.in_jaxpr, inner_jaxprs(eqn))))


def refuse_calls(jaxpr: Any) -> None:
    """Raises NotImplementedError for a program with a call in the function of a reduction or a scatter."""
    if not _refused.in_jaxpr(jaxpr):
        return
    around = _first(_refused, _calls_inside, jaxpr)
    call = _first(_calls, _is_call, next(filter(_calls.in_jaxpr, inner_jaxprs(around))))
    target = call.params.get("target")
    label = call.params.get("target_name", "") if target is None else target.label
    raise NotImplementedError(
        f"callout: '{label}' is called in the function of a {around.primitive.name}, where XLA cannot compile a call. Loop "
        "over the elements by jax.lax.fori_loop or jax.lax.scan, or pass the whole array to one call"
    )
