# SPDX-License-Identifier: Apache-2.0
"""Walks through traced functions: each evaluation passes a function that handles one equation.

control_flow.py handles loops and nested functions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
from jax.extend import core as jex_core

from .. import _jax_compat


def with_these(values: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """Returns the values with `others` at the indices `places`."""
    given = dict(zip(places, others, strict=True))
    return [given.get(i, value) for i, value in enumerate(values)]


# (equation, operands) -> results
Each = Callable[[Any, list[Any]], Sequence[Any]]
Read = Callable[[Any], Any]


def opened(jaxpr: Any) -> Any:
    """Returns a jaxpr without its constants, closed or not."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def consts_of(jaxpr: Any) -> Sequence[Any]:
    """Returns the constants of a jaxpr, if it is closed."""
    return getattr(jaxpr, "consts", ())


def _value(value: Any) -> Any:
    return value


def follow(equations: Iterable[Any], values: dict[Any, Any], each: Each, literal: Read = _value) -> Read:
    """Adds the results of equations to `values`, the values of variables. Returns a function that reads an operand.

    `literal`: maps a constant of the program to its value.
    """

    def read(atom: Any) -> Any:
        return values[atom] if _jax_compat.is_variable(atom) else literal(atom.val)

    for eqn in equations:
        values.update(zip(eqn.outvars, each(eqn, [read(atom) for atom in eqn.invars]), strict=True))
    return read


def walk(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], each: Each, literal: Read = _value) -> list[Any]:
    """Returns a jaxpr's results, with `each` computing the results of an equation. `consts`: constants of an open jaxpr."""
    jaxpr = opened(jaxpr)
    values = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    return [*map(follow(jaxpr.eqns, values, each, literal), jaxpr.outvars)]


def evaluate(jaxpr: Any, args: Sequence[Any], each: Each) -> list[Any]:
    """Returns the results of a jaxpr, closed or without constants, with `each` called in its equation's context."""
    return walk(jaxpr, consts_of(jaxpr), args, in_context(each))


def in_context(each: Each) -> Each:
    """Wraps `each` so that it runs with the settings and source line of its equation."""

    def call(eqn: Any, operands: list[Any]) -> Sequence[Any]:
        with _jax_compat.context_of(eqn):
            return each(eqn, operands)

    return call


def dependences(jaxpr: Any) -> list[frozenset[int]]:
    """Returns for each result the indices of the arguments that it may depend on."""
    jaxpr = opened(jaxpr)
    nothing: frozenset[int] = frozenset()

    def through(jaxpr: Any, args: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        return walk(jaxpr, [nothing] * len(jaxpr.constvars), args, each, lambda _: nothing)

    def each(eqn: Any, operands: list[frozenset[int]]) -> Sequence[frozenset[int]]:
        if eqn.primitive is jex_core.primitives.jit_p:
            return through(opened(eqn.params["jaxpr"]), operands)
        return [nothing.union(*operands)] * len(eqn.outvars)

    return through(jaxpr, [frozenset((i,)) for i in range(len(jaxpr.invars))])


_EXPANDED = "_callout_expanded"


def expanded(eqn: Any) -> Any:
    """Returns the closed jaxpr of an equation of a `jax.experimental.hijax` primitive.

    The primitive's object caches the jaxpr, which may refer to the object.
    """
    primitive = _jax_compat.high_primitive(eqn)
    found = vars(primitive).get(_EXPANDED)
    if found is None:

        def flat(*operands: Any) -> list[Any]:
            return jax.tree.leaves(primitive.expand(*jax.tree.unflatten(primitive.in_tree, operands)))

        found = vars(primitive)[_EXPANDED] = _unwrapped(jax.make_jaxpr(flat)(*primitive.in_avals_flat))
    return found


def _unwrapped(closed: Any) -> Any:
    """Returns the inner jaxpr, which knows its source line, if a jaxpr only calls it; else the jaxpr itself."""
    jaxpr = opened(closed)
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].primitive.name != "eval_jaxpr":
        return closed
    (eqn,) = jaxpr.eqns
    passes_all = list(eqn.invars) == list(jaxpr.invars) and list(eqn.outvars) == list(jaxpr.outvars)
    return eqn.params["call_jaxpr"] if passes_all else closed


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """Yields the jaxprs in an equation's parameters."""
    primitive = _jax_compat.high_primitive(eqn)
    for value in (eqn.params if primitive is None else primitive.params).values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(each, "eqns"):
                yield each
            elif hasattr(each, "jaxpr"):  # closed, or a result of `jax.jit(...).trace`
                yield opened(each) if hasattr(opened(each), "jaxpr") else each


class Search:
    """Searches jaxprs, at any depth, for an equation for which `is_such` is true. Results are cached while a jaxpr lives."""

    def __init__(self, is_such: Callable[[Any], bool]):
        self._is_such = is_such
        self._found: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def in_jaxpr(self, jaxpr: Any) -> bool:
        """Returns whether a jaxpr has such an equation."""
        jaxpr = opened(jaxpr)
        found = self._found.get(jaxpr)
        if found is None:
            found = self._found[jaxpr] = any(map(self.in_equation, jaxpr.eqns))
        return found

    def in_equation(self, eqn: Any) -> bool:
        """Returns whether an equation is such a one, or has one inside."""
        return self._is_such(eqn) or self.inside(eqn)

    def inside(self, eqn: Any) -> bool:
        """Returns whether an equation has such a one inside."""
        return any(map(self.in_jaxpr, inner_jaxprs(eqn)))
