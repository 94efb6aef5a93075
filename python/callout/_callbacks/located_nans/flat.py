# SPDX-License-Identifier: Apache-2.0
"""A traced function as one list of operations: nested functions are part of it, control flow is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core

from ..._primitives import jaxprs
from .nan_sources import is_inexact
from .user_lines import Surroundings

_primitives = jax.extend.core.primitives


@dataclasses.dataclass(eq=False, slots=True)
class Value:
    """What one operation makes, or what is given."""

    inexact: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """What is written into the program."""

    value: Any


@dataclasses.dataclass(eq=False, slots=True)
class Operation:
    """One equation, or what a nested function says of all its operands."""

    eqn: Any
    operands: list[Any]
    results: list[Value]
    around: Surroundings
    function: Callable[[list[Any]], list[Any]] | None = None  # in the place of the equation's primitive


class Flat:
    """Lists the operations of a jaxpr."""

    def __init__(self, jaxpr: Any, around: Surroundings):
        self.operations: list[Operation] = []
        self.constants = [Value(is_inexact(var)) for var in jaxpr.constvars]
        self.inputs = [Value(is_inexact(var)) for var in jaxpr.invars]
        self.results = self._add(jaxpr, self.constants, self.inputs, around)

    def _add(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any], around: Surroundings) -> list[Any]:
        def each(eqn: Any, operands: list[Any]) -> list[Any]:
            nested = _NESTED.get(eqn.primitive)
            return nested(self, eqn, operands, around) if nested else self._one(eqn, operands, around)

        return jaxprs.walk(jaxpr, constants, inputs, each, Constant)

    def _one(self, eqn: Any, operands: list[Any], around: Surroundings) -> list[Any]:
        results = [Value(is_inexact(var)) for var in eqn.outvars]
        self.operations.append(Operation(eqn, operands, results, around))
        return results

    def nested(self, eqn: Any, jaxpr: Any, operands: list[Any], around: Surroundings) -> list[Any]:
        """Returns the results of a jaxpr, closed or open, in a parameter of an equation."""
        return self._add(jaxpr, [*map(Constant, jaxprs.consts_of(jaxpr))], operands, around.inside(eqn, jaxpr))

    def on_all(self, eqn: Any, function: Any, operands: list[Any], around: Surroundings) -> list[Any]:
        """Returns the operands, after `function` of all their values."""
        given = [
            Value(is_inexact(jax.typeof(operand.value)) if isinstance(operand, Constant) else operand.inexact)
            for operand in operands
        ]
        self.operations.append(Operation(eqn, operands, given, around, function))
        return list(given)


def _jit(flat: Flat, eqn: Any, operands: list[Any], around: Surroundings) -> list[Any]:
    params = eqn.params
    for which in ("in_shardings", "out_shardings"):
        told = params[which]
        if which == "out_shardings":
            operands = flat.nested(eqn, params["jaxpr"], operands, around)
        if any(isinstance(sharding, jax.sharding.Sharding) for sharding in told):
            operands = flat.on_all(eqn, lambda values, told=told: jaxprs.constrained(values, told), operands, around)
    return operands


def _remat(flat: Flat, eqn: Any, operands: list[Any], around: Surroundings) -> list[Any]:
    if eqn.params["differentiated"] and eqn.params["prevent_cse"] and operands:
        operands = flat.on_all(eqn, lambda values: jaxprs.behind_barrier(eqn, values), operands, around)
    return flat.nested(eqn, eqn.params["jaxpr"], operands, around)


def _call(flat: Flat, eqn: Any, operands: list[Any], around: Surroundings) -> list[Any]:
    return flat.nested(eqn, eqn.params["call_jaxpr"], operands, around)


_NESTED: dict[Any, Callable[[Flat, Any, list[Any], Surroundings], list[Any]]] = {
    _primitives.jit_p: _jit,
    _primitives.remat_p: _remat,
    _primitives.closed_call_p: _call,
    _primitives.custom_jvp_call_p: _call,
    _primitives.custom_vjp_call_p: _call,
}
