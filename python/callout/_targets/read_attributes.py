# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the attributes of Callout's custom calls in a module; see `target_attributes.encode`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from .operation_attributes import config_key
from .target_attributes import UNBOUNDED, Attribute, Table, tables

_SHOWN = 64  # characters of a text in an error
_EXPECTED = {
    "string": "be a string",
    "s64": "be a 64-bit integer",
    "s64[]": "be an array of 64-bit integers",
    "dictionary": "be a dictionary",
}
_UNREAD = {"can_fail", "sharding", "device_index", "num_devices", "host_callback"}
"""Attributes that are not read here; the core ignores their values."""


def read_call(call: Any) -> dict[str, Any]:
    """Returns the attributes that a call of Callout's targets has, with choices as names."""
    target = ir.StringAttr(call.attributes["call_target_name"]).value
    return _read(_config(call), tables().get(target, {}))


def misfit_of_call(call: Any) -> str:
    """Returns the core's error for a call whose attributes do not fit its target; "" if they do.

    The rules and the texts are those of src/core/attributes/decode.cc.
    """
    target = ir.StringAttr(call.attributes["call_target_name"]).value
    entries = _config(call)
    if not (misfit := _misfit(entries, tables().get(target, {}))):
        return ""
    name = entries.get("callback")
    named = _shown_text(name.value_bytes) if isinstance(name, ir.StringAttr) else ""
    return f"callout: callback {_quoted(named)}: {misfit}" if named else f"callout: {misfit}"


def _config(call: Any) -> dict[str, Any]:
    key = config_key(call)
    return _entries(call.attributes[key]) if key in call.attributes else {}


def _entries(config: Any) -> dict[str, Any]:
    if not isinstance(config, ir.DictAttr):
        return {}
    entries: Any = config
    return {entry.name: entry.attr for entry in entries}


def _misfit(entries: dict[str, Any], table: Table) -> str:
    """Returns the error for a dictionary's entries, or "". Entries without a row in the table are ignored."""
    for name, row in table.items():
        if name in _UNREAD:
            continue
        if name in entries:
            misfit = _misfit_of(row, entries[name])
        else:
            misfit = f"attribute '{name}' is missing; it must {_EXPECTED[row.type]}" if row.is_required else ""
        if misfit:
            return misfit
    return ""


def _misfit_of(row: Attribute, attribute: Any) -> str:
    found = _found(attribute)
    if found != {"string": "a string", "s64": "a number", "s64[]": "an array", "dictionary": "a dictionary"}[row.type]:
        return _wrong(row, _EXPECTED[row.type], found)
    if row.type == "string":
        return _misfit_of_text(row, attribute.value_bytes)
    if row.type == "s64":
        is_wide = isinstance(attribute, ir.IntegerAttr) and str(attribute.type) == "i64"
        return _misfit_of_number(row, attribute.value) if is_wide else _another_type(row, "a number")
    if row.type == "s64[]":
        return _misfit_of_numbers(row, _numbers(attribute))
    misfit = _misfit(_entries(attribute), row.entries)
    return f"in attribute '{row.name}': {misfit}" if misfit else ""


def _misfit_of_text(row: Attribute, text: bytes) -> str:
    if len(text) > row.most_bytes:
        return _wrong(row, f"have at most {row.most_bytes} characters", str(len(text)))
    if row.choices and _shown_text(text) not in row.choices:
        return _wrong(row, f"be {' or '.join(map(_quoted, row.choices))}", _quoted(_shown_text(text)))
    return ""


def _misfit_of_number(row: Attribute, number: int) -> str:
    if row.least <= number <= row.most:
        return ""
    expected = f"be {row.least} to {row.most}" if row.most != UNBOUNDED else f"be at least {row.least}"
    if row.choices:
        expected = "be " + ", ".join(f"{i} ({choice})" for i, choice in enumerate(row.choices))
    return _wrong(row, expected, str(number))


def _misfit_of_numbers(row: Attribute, numbers: Sequence[int] | None) -> str:
    if numbers is None:
        return _another_type(row, "an array")
    if row.count and len(numbers) != row.count:
        return _wrong(row, f"have {row.count} numbers", str(len(numbers)))
    if len(numbers) % row.group:
        return _wrong(row, "be pairs" if row.group == 2 else f"be groups of {row.group}", f"{len(numbers)} numbers")
    return next(filter(None, (_misfit_of_number(row, number) for number in numbers)), "")


def _wrong(row: Attribute, expected: str, got: str) -> str:
    return f"attribute '{row.name}' must {expected}, got {got}"


def _another_type(row: Attribute, what: str) -> str:
    return _wrong(row, _EXPECTED[row.type], f"{what} of another type")


def _found(attribute: Any) -> str:
    if isinstance(attribute, ir.StringAttr):
        return "a string"
    if isinstance(attribute, ir.DictAttr):
        return "a dictionary"
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr)):
        return "a number"
    return "an array" if "Dense" in type(attribute).__name__ else "something else"


def _numbers(attribute: Any) -> Sequence[int] | None:
    """Returns the numbers of an array of 64-bit integers, in either form; None for another array."""
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return [int(number) for number in attribute]
    if isinstance(attribute, ir.DenseIntElementsAttr) and str(ir.ShapedType(attribute.type).element_type) == "i64":
        numbers: Any = attribute
        return [int(number) for number in numbers]
    return None


def _shown_text(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _quoted(text: str) -> str:
    return f"'{text[:_SHOWN]}'"


def _read(entries: dict[str, Any], table: Table) -> dict[str, Any]:
    return {name: _value(name, attribute, table) for name, attribute in entries.items()}


def _value(name: str, attribute: Any, table: Table) -> Any:
    row = table.get(name)
    if isinstance(attribute, ir.DictAttr):
        return _read(_entries(attribute), row.entries if row is not None else {})
    if isinstance(attribute, ir.StringAttr):
        return _text(attribute.value_bytes)
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.IntegerAttr):
        return _number(attribute.value, row.choices if row is not None else ())
    if row is not None and row.type == "s64[]" and (numbers := _numbers(attribute)) is not None:
        return np.array(numbers, np.int64)
    return attribute  # an attribute of the user's function


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _number(value: int, choices: Any) -> Any:
    return choices[value] if 0 <= value < len(choices) else value
