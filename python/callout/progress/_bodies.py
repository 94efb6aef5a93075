# SPDX-License-Identifier: Apache-2.0
"""Functions on loop bodies with markers: find markers, evaluate a body without them, and add their scan's parameters.

A marker is found at the top level of a body and in the functions that are called there. A marker inside a cond is not
found, because the program does not reach it in each iteration.

A bar's field has a recipe if it is a function of the body's results, which the loop carries or has written to the
results of a scan. Such a field is computed once for each chunk, so the inner loop equals the loop without a bar.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .. import _jax_compat
from .._primitives import jaxprs
from .._primitives.control_flow import CALLED, behind_barrier
from .._primitives.recipes import CONSTANT, RESULT, STACK, Recipe, Source, find_recipe
from ._marker import Mark, has_marks, mark_p


@dataclasses.dataclass(frozen=True)
class Found:
    """Describes a marker in a body. Each operand has a type, the index of the body's argument that it is, and a recipe.

    `recipes` compute operands from the loop's values after a step, where this is possible.
    """

    mark: Mark
    avals: tuple[Any, ...]
    arguments: tuple[int | None, ...]
    recipes: tuple[Recipe | None, ...]


def _called(eqn: Any) -> str | None:
    """Returns the name of the parameter with the function that `eqn` calls, if markers can be removed from the function."""
    key = CALLED.get(eqn.primitive.name)
    if key is None or key not in eqn.params:
        return None
    shardings = (*eqn.params.get("in_shardings", ()), *eqn.params.get("out_shardings", ()))
    return None if any(isinstance(each, jax.sharding.Sharding) for each in shardings) else key


def find(jaxpr: Any, num_consts: int) -> list[Found]:
    """Returns the markers that `evaluate` removes, in its order. `num_consts`: how many arguments stay constant."""
    inner = jaxprs.opened(jaxpr)
    known: dict[Any, Source] = {var: (CONSTANT, place) for place, var in enumerate(inner.invars[:num_consts])}
    known.update({var: (RESULT, place) for place, var in enumerate(inner.outvars) if _jax_compat.is_variable(var)})
    known.update(stacked(inner, num_consts))
    return _find(inner, {var: place for place, var in enumerate(inner.invars)}, known)


def _find(inner: Any, arguments: dict[Any, int], known: dict[Any, Source]) -> list[Found]:
    found: list[Found] = []
    for eqn in filter(has_marks, inner.eqns):
        places = tuple(arguments.get(atom) if _jax_compat.is_variable(atom) else None for atom in eqn.invars)
        if eqn.primitive is mark_p:
            avals = tuple(atom.aval for atom in eqn.invars)
            recipes = tuple(find_recipe(inner, atom, known) for atom in eqn.invars)
            found.append(Found(eqn.params["mark"], avals, places, recipes))
        elif key := _called(eqn):
            called = jaxprs.opened(eqn.params[key])
            below = {}
            for outer, var in (
                *zip(eqn.invars, called.invars, strict=True),
                *zip(eqn.outvars, called.outvars, strict=True),
            ):
                if _jax_compat.is_variable(outer) and _jax_compat.is_variable(var) and outer in known:
                    below[var] = known[outer]
            passed = zip(called.invars, places, strict=True)
            found += _find(called, {var: place for var, place in passed if place is not None}, below)
    return found


def evaluate(jaxpr: Any, args: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
    """Returns the results of a body, and the operands of its markers."""
    taken: list[list[Any]] = []

    def each(eqn: Any, operands: list[Any]) -> Sequence[Any]:
        if eqn.primitive is mark_p:
            taken.append(operands)
            return ()
        if has_marks(eqn) and (key := _called(eqn)):
            outs, more = evaluate(eqn.params[key], behind_barrier(eqn, operands))
            taken.extend(more)
            return outs
        return _jax_compat.bind_again(eqn, operands)

    return jaxprs.evaluate(jaxpr, args, each), taken


def with_marks(jaxpr: Any, change: Callable[[Mark], Mark]) -> Any:
    """Returns the body with changed parameters of the markers that `find` finds."""
    inner, eqns = jaxprs.opened(jaxpr), []
    for eqn in inner.eqns:
        if eqn.primitive is mark_p:
            eqn = eqn.replace(params={**eqn.params, "mark": change(eqn.params["mark"])})
        elif has_marks(eqn) and (key := _called(eqn)):
            eqn = eqn.replace(params={**eqn.params, key: with_marks(eqn.params[key], change)})
        eqns.append(eqn)
    changed = inner.replace(eqns=eqns)
    return changed if inner is jaxpr else jaxpr.replace(jaxpr=changed)


def stacked(body: Any, num_consts: int) -> dict[Any, Source]:
    """Returns the variables of a body that are rows of carried arrays, as in the while loop that JAX makes of a scan."""
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
    """Returns the parts of a row. In an unrolled scan, a row holds the results of several steps."""
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
