# SPDX-License-Identifier: Apache-2.0
"""The attributes of a custom call of ours in a module, as `target_attributes.encode` takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend.mlir import ir

from .operation_attributes import config_key
from .target_attributes import Table, tables


def read_call(call: Any) -> dict[str, Any]:
    """Returns what a call of one of our targets carries: choices by their names, and nothing of what is absent."""
    target = ir.StringAttr(call.attributes["call_target_name"]).value
    return _read(ir.DictAttr(call.attributes[config_key(call)]), tables().get(target, {}))


def _read(config: Any, table: Table) -> dict[str, Any]:
    return {entry.name: _value(entry.name, entry.attr, table) for entry in config}


def _value(name: str, attribute: Any, table: Table) -> Any:
    row = table.get(name)
    if isinstance(attribute, ir.DictAttr):
        return _read(attribute, row.entries if row is not None else {})
    if isinstance(attribute, ir.StringAttr):
        return _text(attribute.value_bytes)
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.IntegerAttr):
        return _number(attribute.value, row.choices if row is not None else ())
    if row is not None and row.type == "s64[]":
        numbers: Any = ir.DenseIntElementsAttr(attribute)
        return np.array(list(numbers), np.int64)
    return attribute  # of a function of the user's


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _number(value: int, choices: Any) -> Any:
    return choices[value] if 0 <= value < len(choices) else value
