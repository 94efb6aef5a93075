# SPDX-License-Identifier: Apache-2.0
"""The hook in JAX's lowering rules of scan and while, for loops that Callout lowers as loops over chunks of steps.

Progress bars and taps with a flush interval are such loops. Each has its own rules, which return NotImplemented for a
loop that does not concern them. A loop with both is cut by the bar first: the loop over the steps of one of the bar's
chunks is then lowered by the taps' rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.extend import core as jex_core

from .. import _jax_compat
from .._base.patches import Place

Rule = Callable[..., Any]

_scans: list[Rule] = []
_whiles: list[Rule] = []


def add(of_scan: Rule | None, of_while: Rule) -> None:
    """Adds rules `rule(original, ctx, *args, **params)`. The rules that were added first are tried first."""
    if of_scan is not None:
        _scans.append(of_scan)
    _whiles.append(of_while)


def _first(rules: list[Rule], *args: Any, **params: Any) -> Any:
    for rule in rules:
        result = rule(*args, **params)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _lower_scan(*args: Any, **params: Any) -> Any:
    return _first(_scans, *args, **params)


def _lower_while(*args: Any, **params: Any) -> Any:
    return _first(_whiles, *args, **params)


def hooked() -> list[Place]:
    """Returns the places of JAX's rules that are replaced."""
    rules = _jax_compat.lowering_rules()
    if rules is None:
        return []
    loops = jex_core.primitives
    return [Place(rules, loops.scan_p, before=_lower_scan), Place(rules, loops.while_p, before=_lower_while)]
