# SPDX-License-Identifier: Apache-2.0
"""Recipes compute a value of a loop's body outside of the body, from the loop's constants and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .. import _jax_compat
from . import jaxprs

CONSTANT, RESULT, STACK = "constant", "result", "stack"
# A source says where a value comes from by a kind and an index among the body's arguments or results. STACK means the
# row that a step wrote last to a carried array; a third number selects a part of the row.
Source = tuple[str, int] | tuple[str, int, int]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Computes a value from the loop's values, by equations of the body."""

    atom: Any
    equations: tuple[Any, ...]
    sources: dict[Any, Source]

    def make(self, read: Callable[[Source], Any]) -> Any:
        """Computes the value. `read` returns the value of a source."""
        values = {var: read(source) for var, source in self.sources.items()}
        return jaxprs.follow(self.equations, values, jaxprs.in_context(_jax_compat.bind_again))(self.atom)


def find_recipe(jaxpr: Any, atom: Any, known: dict[Any, Source]) -> Recipe | None:
    """Returns a recipe that computes `atom` from `known` variables, or None if it needs others or has effects."""
    makers = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    equations: list[Any] = []
    sources: dict[Any, Source] = {}

    def reach(atom: Any) -> bool:
        if not _jax_compat.is_variable(atom) or atom in sources:
            return True
        if atom in known:
            sources[atom] = known[atom]
            return True
        eqn = makers.get(atom)
        if eqn is None or eqn.effects or not all(map(reach, eqn.invars)):
            return False
        if not any(one is eqn for one in equations):
            equations.append(eqn)
        return True

    return Recipe(atom, tuple(equations), sources) if reach(atom) else None
