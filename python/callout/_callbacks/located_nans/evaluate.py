# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function with an inspection of the results of each region.

1. `Flat` turns a traced function into one list of operations. Nested functions are inlined, control flow is not.
2. Successive operations of one line (or operation, function, module) form a region.
3. A region's results are inspected if one of its operations may have made them bad. Its inputs are inspected only if
   its results are bad. So the report of a region depends on no other region, and values stay in XLA's memory.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex_core

from ... import _jax_compat
from ..._primitives import control_flow, inspections, jaxprs
from ..._primitives.control_flow import Result, State
from .nan_sources import (
    can_make,
    has_constant,
    has_mutable_arrays,
    is_batched_while,
    is_collective,
    is_folded,
    is_inexact,
    makes_any,
    passes_on,
)
from .user_lines import Granularity, Line, Surroundings, is_the_users, module_name

_primitives = jex_core.primitives


@dataclasses.dataclass(eq=False, slots=True)
class Value:
    """A result of an operation, or an argument of the traced function."""

    inexact: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the program."""

    value: Any


@dataclasses.dataclass(eq=False, slots=True)
class Operation:
    """One equation, or a function that a nested function applies to all of its operands."""

    eqn: Any
    operands: list[Any]
    results: list[Value]
    around: Surroundings
    function: Callable[[list[Any]], list[Any]] | None = None  # replaces the equation's primitive


class Flat:
    """Lists the operations of a jaxpr."""

    def __init__(self, jaxpr: Any, around: Surroundings):
        self.operations: list[Operation] = []
        self.constants = [Value(is_inexact(var)) for var in jaxpr.constvars]
        self.inputs = [Value(is_inexact(var)) for var in jaxpr.invars]
        self.results = self._add(jaxpr, self.constants, self.inputs, around)

    def _add(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any], around: Surroundings) -> list[Any]:
        def each(eqn: Any, operands: list[Any]) -> list[Any]:
            nested = control_flow.called(eqn)
            if nested is None:
                return self._one(eqn, operands, around)
            return self._nested(eqn, nested, operands, around)

        return jaxprs.walk(jaxpr, constants, inputs, each, Constant)

    def _one(self, eqn: Any, operands: list[Any], around: Surroundings) -> list[Any]:
        results = [Value(is_inexact(var)) for var in eqn.outvars]
        self.operations.append(Operation(eqn, operands, results, around))
        return results

    def _nested(self, eqn: Any, jaxpr: Any, operands: list[Any], around: Surroundings) -> list[Any]:
        """Inlines a function that an equation calls, and returns its results."""
        params = eqn.params
        if _says_where(params.get("in_shardings")):
            operands = self._on_all(eqn, _constrained(eqn, "in_shardings"), operands, around)
        if params.get("differentiated") and params.get("prevent_cse") and operands:
            operands = self._on_all(eqn, lambda values: control_flow.behind_barrier(eqn, values), operands, around)
        constants = [*map(Constant, jaxprs.consts_of(jaxpr))]
        results = self._add(jaxprs.opened(jaxpr), constants, operands, around.inside(eqn, jaxpr))
        if _says_where(params.get("out_shardings")):
            results = self._on_all(eqn, _constrained(eqn, "out_shardings"), results, around)
        return results

    def _on_all(self, eqn: Any, function: Any, operands: list[Any], around: Surroundings) -> list[Any]:
        """Adds an operation that applies `function` to all operands, and returns its results."""
        given = [
            Value(is_inexact(jax.typeof(operand.value)) if isinstance(operand, Constant) else operand.inexact)
            for operand in operands
        ]
        self.operations.append(Operation(eqn, operands, given, around, function))
        return list(given)


def _says_where(shardings: Any) -> bool:
    return any(isinstance(sharding, jax.sharding.Sharding) for sharding in shardings or ())


def _constrained(eqn: Any, which: str) -> Callable[[list[Any]], list[Any]]:
    return lambda values: control_flow.constrained(eqn, values, which)


_MOST_NAMES = 6


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a `locate_nans`."""

    granularity: Granularity
    stop: bool
    infinities: bool


class Region:
    """Successive operations that have the same key."""

    def __init__(self, key: Any, line: Line):
        self.key = key
        self.line = line
        self.operations: list[Operation] = []
        self.end = 0  # the index of the first operation behind the region


class Evaluation(control_flow.Interpreter):
    """Evaluates one function. The interpreter's state holds the steps of the loops around.

    Args:
        settings: the settings of the `locate_nans`.
        around: the nested functions around.
        orders: the counter of inspection numbers, which a function shares with all nested functions.
    """

    counts_steps = True

    def __init__(self, settings: Settings, around: Surroundings, orders: Any = None):
        super().__init__()
        self.settings = settings
        self._around = around
        self._orders = itertools.count() if orders is None else orders

    def inside(self, eqn: Any, jaxpr: Any) -> Evaluation:
        """Returns the interpreter of `jaxpr`, which is a parameter of `eqn`."""
        return Evaluation(self.settings, self._around.inside(eqn, jaxpr), self._orders)

    def around(self, around: Surroundings) -> Evaluation:
        """Returns an interpreter for equations inside other functions."""
        return Evaluation(self.settings, around, self._orders)

    def concerns(self, eqn: Any) -> bool:
        """Returns whether an operation inside of an equation can make NaN or infinities, and is inspected."""
        return makes_any(eqn) and not is_batched_while(eqn)

    def evaluate(self, jaxpr: Any, state: State, args: Sequence[Any]) -> Result:
        """Evaluates a jaxpr, closed or open. Returns an empty state and the results."""
        flat = Flat(jaxprs.opened(jaxpr), self._around)
        values: dict[Value, Any] = dict(zip(flat.constants, jaxprs.consts_of(jaxpr), strict=True))
        values.update(zip(flat.inputs, args, strict=True))
        last = _last_uses(flat)
        regions = {id(region.operations[-1]): region for region in self._regions(flat)}

        def read(operand: Any) -> Any:
            return operand.value if isinstance(operand, Constant) else values[operand]

        for operation in flat.operations:
            operands = [read(operand) for operand in operation.operands]
            if operation.function is not None:
                outs: Sequence[Any] = operation.function(operands)
            else:
                with _jax_compat.context_of(operation.eqn):
                    _, outs = self.around(operation.around).apply(operation.eqn, state, operands)
            values.update(zip(operation.results, outs, strict=True))
            if region := regions.get(id(operation)):
                self._look(region, values, last, state.steps)
        return (), [read(result) for result in flat.results]

    def _regions(self, flat: Flat) -> list[Region]:
        regions: list[Region] = []
        current: Region | None = None
        for number, operation in enumerate(flat.operations):
            eqn = operation.eqn
            if (
                operation.function is not None
                or (control_flow.rule_of(eqn) is not None and not is_batched_while(eqn))
                or is_collective(eqn)
                or has_mutable_arrays(eqn)
            ):
                current = None  # the operation belongs to no region, and ends the one before
                continue
            if not any(map(is_inexact, eqn.outvars)):
                continue
            line = operation.around.line_of(eqn)
            key = self._key(operation, line)
            if current is None or current.key != key:
                current = Region(key, line)
                regions.append(current)
            current.operations.append(operation)
            current.end = number
        return regions

    def _key(self, operation: Operation, line: Line) -> Any:
        backward = operation.around.is_backward(operation.eqn)
        match self.settings.granularity:
            case "operation":
                return operation
            case "line":
                return line.file, line.number, backward
            case "function":
                return line.file, line.function, backward
            case _:
                scopes = module_name(operation.around.scopes_of(operation.eqn))
                return scopes, operation.around.calls_of(operation.eqn), backward

    def _look(self, region: Region, values: dict[Value, Any], last: dict[Value, int], steps: Sequence[Any]) -> None:
        made: dict[Value, list[Operation]] = {}  # the values that may be bad, and the operations that may be the cause
        root: dict[Value, Value] = {}
        products: dict[Value, Any] = {}
        inputs: dict[Value, None] = {}
        own: set[Value] = set()
        constants = dict.fromkeys(("nan", "inf"), False)
        for operation in region.operations:
            given = [each for each in operation.operands if isinstance(each, Value) and each.inexact]
            inputs.update(dict.fromkeys(each for each in given if each not in own))
            written = [each.value for each in operation.operands if isinstance(each, Constant)]
            constants["nan"] |= has_constant(operation.eqn, np.isnan, written)
            constants["inf"] |= has_constant(operation.eqn, np.isinf, written)
            makers = list(dict.fromkeys(maker for each in given for maker in made.get(each, ())))
            makers += [operation] if can_make(operation.eqn) else []
            for result in operation.results:
                own.add(result)
                products[result] = operation.eqn
                if makers and result.inexact:
                    made[result] = makers
                    if passes_on(operation.eqn) and not is_folded(operation.eqn, products.get(given[0])):
                        root[result] = root.get(given[0], given[0])
        leaving = [root.get(each, each) for each in made if last.get(each, -1) > region.end]
        results = [each for each in dict.fromkeys(leaving) if each in made]
        if not results or constants["nan"]:
            return  # the user wrote a NaN constant on purpose
        self._bind([made[each] for each in results], results, list(inputs), values, constants["inf"], steps)

    def _bind(
        self,
        makers: list[list[Operation]],
        results: list[Value],
        inputs: list[Value],
        values: dict[Value, Any],
        has_infinity: bool,
        steps: Sequence[Any],
    ) -> None:
        first = makers[0][0]
        line = first.around.line_of(first.eqn)
        text = inspections.LocatedNansText(
            line=str(line),
            expression=line.text(),
            module=first.around.module_of(first.eqn),
            operations=tuple(_names(each, line) for each in makers),
            num_inputs=len(inputs),
            num_steps=len(steps),
            order=next(self._orders),
            backward=first.around.is_backward(first.eqn),
            infinities=self.settings.infinities and not has_infinity,
            stop=self.settings.stop,
        )
        with _jax_compat.context_of(first.eqn):
            inspections.bind_located_nans(text, [*(values[each] for each in (*results, *inputs)), *steps])


def _names(makers: Sequence[Operation], first: Line) -> str:
    """Returns the names of the operations, with their lines if these differ from the first one's."""

    def name(maker: Operation) -> str:
        line, name = maker.around.line_of(maker.eqn), str(maker.eqn.primitive.name)
        return name if line == first else f"{name} ({Path(line.file).name}:{line.number})"

    names = list(dict.fromkeys(map(name, makers)))
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES // 2 : -_MOST_NAMES // 2] = ["..."]
    return ", ".join(names)


def _is_reversed_alone(eqn: Any) -> bool:
    primitive = _jax_compat.high_primitive(eqn)
    if primitive is None or _jax_compat.is_high_remat(primitive):
        return False
    return _jax_compat.has_rule(primitive, "vjp_fwd") and not _jax_compat.has_rule(primitive, "lin")


_reversed_alone = jaxprs.Search(_is_reversed_alone)
"""Finds primitives that only have a backward pass, which `jax.linearize` rejects."""


class _Linearizable(control_flow.Interpreter):
    """Evaluates a function so that `jax.linearize` accepts primitives that only have a backward pass. There is no state."""

    def concerns(self, eqn: Any) -> bool:
        """Returns whether an equation has a primitive that only has a backward pass, or has one inside."""
        return _reversed_alone.in_equation(eqn)


def unchanged(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Evaluates a jaxpr unchanged, while equations in the user's derivative rules keep the lines of these rules."""

    def each(eqn: Any, operands: list[Any]) -> Sequence[Any]:
        inner = eqn.params.get("jaxpr" if eqn.primitive is _primitives.jit_p else "call_jaxpr")
        is_users = inner is not None and is_the_users(inner)
        if is_users and eqn.primitive is _primitives.jit_p:
            given = control_flow.constrained(eqn, operands, "in_shardings")
            return control_flow.constrained(eqn, unchanged(inner.jaxpr, inner.consts, given), "out_shardings")
        with _jax_compat.own_lines() if is_users else _jax_compat.context_of(eqn):
            return _Linearizable().apply(eqn, State(), operands)[1]

    return jaxprs.walk(jaxpr, consts, args, each)


def _last_uses(flat: Flat) -> dict[Value, int]:
    """Returns for each value the index of the last operation that uses it; results of the function are used after all."""
    last: dict[Value, int] = {}
    for number, operation in enumerate(flat.operations):
        last.update(dict.fromkeys((each for each in operation.operands if isinstance(each, Value)), number))
    last.update(dict.fromkeys((each for each in flat.results if isinstance(each, Value)), len(flat.operations)))
    return last
