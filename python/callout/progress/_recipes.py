# SPDX-License-Identifier: Apache-2.0
"""Fields of a bar, made where they are shown: once a chunk, of what the loop carries, and not in each step.

A field is a function of what the body returns. That is carried by the loop, or was written to the results of a scan. So
the inner loop need not make it, and is the loop that there is without a bar.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .. import _jax_compat
from .._primitives import jaxprs

CONSTANT, RESULT, STACK = "constant", "result", "stack"
# The kind, and the place among the body's arguments, or results. STACK: its last row that was written, or a part of that.
Source = tuple[str, int] | tuple[str, int, int]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Says how to make a value."""

    atom: Any
    equations: tuple[Any, ...]
    sources: dict[Any, Source]

    def make(self, read: Callable[[Source], Any]) -> Any:
        """Returns the value. `read` has the sources."""
        values = {var: read(source) for var, source in self.sources.items()}
        return jaxprs.follow(self.equations, values, jaxprs.in_context(_jax_compat.bind_again))(self.atom)


def find_recipe(jaxpr: Any, atom: Any, known: dict[Any, Source]) -> Recipe | None:
    """Returns how to make a variable of a jaxpr of those that are known; None if it needs others, or has effects."""
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


def stacked(body: Any, num_consts: int) -> dict[Any, Source]:
    """Returns the variables of a while loop's body that are rows of what it carries: JAX makes such a loop of a scan."""
    rows: dict[Any, Source] = {}
    places = {var: place for place, var in enumerate(body.outvars) if _jax_compat.is_variable(var)}
    for eqn in body.eqns:
        if eqn.params.get("name") == "dynamic_update_index_in_dim" and eqn.outvars[0] in places:
            place = places[eqn.outvars[0]]
            stack, row = eqn.invars[:2]
            if stack is body.invars[num_consts + place] and _jax_compat.is_variable(row):
                rows[row] = (STACK, place)
                parts = _parts(body, row)
                rows.update({part: (STACK, place, i) for i, part in enumerate(parts) if _jax_compat.is_variable(part)})
    return rows


def _parts(body: Any, row: Any) -> list[Any]:
    """Returns what a row is put together of: of an unrolled scan it has several steps."""
    makers = {var: eqn for eqn in body.eqns for var in eqn.outvars}
    joined = makers.get(row)
    if joined is None or joined.primitive.name != "concatenate" or joined.params["dimension"] != 0:
        return []
    parts = []
    for atom in joined.invars:
        widened = makers.get(atom) if _jax_compat.is_variable(atom) else None
        if widened is None or widened.primitive.name not in ("broadcast_in_dim", "reshape"):
            return []
        part = widened.invars[0]
        dims = widened.params.get("broadcast_dimensions", range(1, part.aval.ndim + 1))
        if atom.aval.shape != (1, *part.aval.shape) or tuple(dims) != tuple(range(1, part.aval.ndim + 1)):
            return []
        parts.append(part)
    return parts
