# SPDX-License-Identifier: Apache-2.0
"""Functions of a module that are called once, for operations of which each call needs one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from .operation_attributes import operations


def separate(module: Any, needing: Sequence[Any]) -> None:
    """Gives each call of a function that has one of these operations, or calls one that has, a copy of its own."""
    table = ir.SymbolTable(module.operation)
    calls: dict[str, list[tuple[Any, str]]] = {}  # what a function calls
    having = {_name_of(_function_of(op)) for op in needing}
    for function in module.body.operations:
        if function.operation.name == "func.func":
            calls[_name_of(function)] = [(op, _callee(op)) for op in operations(function.operation) if _is_call(op)]
    while more := {name for name, inner in calls.items() if any(callee in having for _, callee in inner)} - having:
        having |= more
    _separate_from(module, table, "main", having, set())


def _separate_from(module: Any, table: Any, name: str, having: set[str], taken: set[str]) -> None:
    for call in [op for op in operations(table[name].operation) if _is_call(op)]:
        callee = _callee(call)
        if callee not in having:
            continue
        if callee in taken:
            copy = table[callee].operation.clone(ir.InsertionPoint(table[callee]))
            callee = ir.StringAttr(table.insert(copy)).value  # which renames it
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(callee)
            having.add(callee)
        taken.add(callee)
        _separate_from(module, table, callee, having, taken)


def _is_call(operation: Any) -> bool:
    return bool(operation.name == "func.call")


def _callee(call: Any) -> str:
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _function_of(operation: Any) -> Any:
    while operation.name != "func.func":
        operation = operation.parent.operation
    return operation


def _name_of(function: Any) -> str:
    return str(ir.StringAttr(function.attributes["sym_name"]).value)
