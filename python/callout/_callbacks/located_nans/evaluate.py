# SPDX-License-Identifier: Apache-2.0
"""Evaluates a traced function with a look at what leaves each of its regions.

A traced function is one list of operations here: nested functions are part of the list, control flow is not. A region is a
run of operations of one line (operation, function, module). Its results are looked at if one of its operations may have made
them bad; its inputs only where its results are bad. So what one region reports rests on no other, and values stay where XLA
has them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.extend.core
import numpy as np

from ... import _jax_compat
from ..._primitives import inspections, jaxprs
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

_primitives = jax.extend.core.primitives


@dataclasses.dataclass(eq=False, slots=True)
class Value:
    """A value that an operation computes, or that the traced function is given."""

    inexact: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A value that is written into the program."""

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


_MOST_NAMES = 6


@dataclasses.dataclass(frozen=True)
class Settings:
    """What `locate_nans` was told."""

    granularity: Granularity
    stop: bool
    infinities: bool


# Control flow, and how its parts are evaluated. control_flow.py adds to it.
Rule = Callable[["Evaluation", Any, Surroundings, Sequence[Any]], Sequence[Any]]
RULES: dict[Any, Rule] = {}


class Region:
    """A run of operations of one key."""

    def __init__(self, key: Any, line: Line):
        self.key = key
        self.line = line
        self.operations: list[Operation] = []
        self.end = 0  # place of the first operation behind it


class Evaluation:
    """One evaluation: settings, the steps of the loops around, and the numbers of places."""

    def __init__(self, settings: Settings, steps: tuple[Any, ...] = (), orders: Any = None):
        self.settings = settings
        self.steps = steps
        self._orders = itertools.count() if orders is None else orders

    def in_loop(self, step: Any) -> Evaluation:
        """Returns one for the body of a loop."""
        return Evaluation(self.settings, (*self.steps, step), self._orders)

    def with_steps(self, steps: Sequence[Any]) -> Evaluation:
        """Returns one whose steps are other arrays."""
        return Evaluation(self.settings, tuple(steps), self._orders)

    def jaxpr(self, jaxpr: Any, around: Surroundings, args: Sequence[Any]) -> list[Any]:
        """Returns the results of a jaxpr, closed or open."""
        flat = Flat(jaxprs.opened(jaxpr), around)
        values: dict[Value, Any] = dict(zip(flat.constants, jaxprs.consts_of(jaxpr), strict=True))
        values.update(zip(flat.inputs, args, strict=True))
        last = _last_uses(flat)
        regions = {id(region.operations[-1]): region for region in self._regions(flat)}

        def read(operand: Any) -> Any:
            return operand.value if isinstance(operand, Constant) else values[operand]

        for operation in flat.operations:
            outs = self._results(operation, [read(operand) for operand in operation.operands])
            values.update(zip(operation.results, outs, strict=True))
            if region := regions.get(id(operation)):
                self._look(region, values, last)
        return [read(result) for result in flat.results]

    def _results(self, operation: Operation, args: list[Any]) -> Sequence[Any]:
        eqn = operation.eqn
        if operation.function is not None:
            return operation.function(args)
        rule = RULES.get(eqn.primitive)
        with _jax_compat.context_of(eqn):
            if rule is not None and makes_any(eqn):
                return rule(self, eqn, operation.around, args)
            return _jax_compat.bind_again(eqn, args)

    def _regions(self, flat: Flat) -> list[Region]:
        regions: list[Region] = []
        current: Region | None = None
        for number, operation in enumerate(flat.operations):
            eqn = operation.eqn
            is_evaluated = eqn.primitive in RULES and not is_batched_while(eqn)
            if operation.function is not None or is_evaluated or is_collective(eqn) or has_mutable_arrays(eqn):
                current = None  # what it brings is an input of what follows, and what it takes leaves its line
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

    def _look(self, region: Region, values: dict[Value, Any], last: dict[Value, int]) -> None:
        made: dict[Value, list[Operation]] = {}  # what may be bad, and the operations that may have made it so
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
            return  # a constant that is NaN is meant
        self._bind([made[each] for each in results], results, list(inputs), values, constants["inf"])

    def _bind(
        self,
        makers: list[list[Operation]],
        results: list[Value],
        inputs: list[Value],
        values: dict[Value, Any],
        has_infinity: bool,
    ) -> None:
        first = makers[0][0]
        line = first.around.line_of(first.eqn)
        text = inspections.LocatedNansText(
            line=str(line),
            expression=line.text(),
            module=first.around.module_of(first.eqn),
            operations=tuple(_names(each, line) for each in makers),
            num_inputs=len(inputs),
            num_steps=len(self.steps),
            order=next(self._orders),
            backward=first.around.is_backward(first.eqn),
            infinities=self.settings.infinities and not has_infinity,
            stop=self.settings.stop,
        )
        with _jax_compat.context_of(first.eqn):
            inspections.bind_located_nans(text, [*(values[each] for each in (*results, *inputs)), *self.steps])


def _names(makers: Sequence[Operation], first: Line) -> str:
    """Returns the operations, with their lines where these differ from the first one's."""

    def name(maker: Operation) -> str:
        line, name = maker.around.line_of(maker.eqn), str(maker.eqn.primitive.name)
        return name if line == first else f"{name} ({Path(line.file).name}:{line.number})"

    names = list(dict.fromkeys(map(name, makers)))
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES // 2 : -_MOST_NAMES // 2] = ["..."]
    return ", ".join(names)


def unchanged(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Returns a jaxpr's results as they are; what derivative rules of the user's do has the lines of these rules."""

    def each(eqn: Any, operands: list[Any]) -> Sequence[Any]:
        inner = eqn.params.get("jaxpr" if eqn.primitive is _primitives.jit_p else "call_jaxpr")
        is_users = inner is not None and is_the_users(inner)
        if is_users and eqn.primitive is _primitives.jit_p:
            given = jaxprs.constrained(operands, eqn.params["in_shardings"])
            return jaxprs.constrained(unchanged(inner.jaxpr, inner.consts, given), eqn.params["out_shardings"])
        with _jax_compat.own_lines() if is_users else _jax_compat.context_of(eqn):
            return _jax_compat.bind_again(eqn, operands)

    return jaxprs.walk(jaxpr, consts, args, each)


def _last_uses(flat: Flat) -> dict[Value, int]:
    """Finds for each value the last operation that has it as an operand, by number; a result of all is used after them."""
    last: dict[Value, int] = {}
    for number, operation in enumerate(flat.operations):
        last.update(dict.fromkeys((each for each in operation.operands if isinstance(each, Value)), number))
    last.update(dict.fromkeys((each for each in flat.results if isinstance(each, Value)), len(flat.operations)))
    return last
