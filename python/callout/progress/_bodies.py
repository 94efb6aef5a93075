# SPDX-License-Identifier: Apache-2.0
"""Bodies of loops and the markers in them: finding them, evaluating a body without them, telling them about their scan.

A marker is found at the top of a body and in the functions that are called there. One inside a cond is not: how often it
is reached is not how often the loop goes round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .. import _jax_compat
from .._primitives import jaxprs
from ._marker import Mark, has_marks, mark_p
from ._recipes import CONSTANT, RESULT, Recipe, Source, find_recipe, stacked

# What only calls a function, once, and where that is.
_CALLED = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


@dataclasses.dataclass(frozen=True)
class Found:
    """Names a marker in a body. For each operand: its type, the place of the body's argument that it is, and how to make it.

    `recipes` make an operand of what the loop has after a step, where that is possible.
    """

    mark: Mark
    avals: tuple[Any, ...]
    arguments: tuple[int | None, ...]
    recipes: tuple[Recipe | None, ...]


def _called(eqn: Any) -> str | None:
    """Returns the parameter with the function that an equation calls, if its markers can be taken out there."""
    key = _CALLED.get(eqn.primitive.name)
    if key is None or key not in eqn.params:
        return None
    shardings = (*eqn.params.get("in_shardings", ()), *eqn.params.get("out_shardings", ()))
    return None if any(isinstance(each, jax.sharding.Sharding) for each in shardings) else key


def find(jaxpr: Any, num_consts: int) -> list[Found]:
    """Returns the markers that `evaluate` takes out, in its order. `num_consts`: arguments that no step changes."""
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
            outs, more = evaluate(eqn.params[key], jaxprs.behind_barrier(eqn, operands))
            taken.extend(more)
            return outs
        return _jax_compat.bind_again(eqn, operands)

    return jaxprs.evaluate(jaxpr, args, each), taken


def with_marks(jaxpr: Any, change: Callable[[Mark], Mark]) -> Any:
    """Returns the same body with other parameters of the markers that `find` finds."""
    inner, eqns = jaxprs.opened(jaxpr), []
    for eqn in inner.eqns:
        if eqn.primitive is mark_p:
            eqn = eqn.replace(params={**eqn.params, "mark": change(eqn.params["mark"])})
        elif has_marks(eqn) and (key := _called(eqn)):
            eqn = eqn.replace(params={**eqn.params, key: with_marks(eqn.params[key], change)})
        eqns.append(eqn)
    changed = inner.replace(eqns=eqns)
    return changed if inner is jaxpr else jaxpr.replace(jaxpr=changed)
