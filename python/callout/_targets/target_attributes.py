# SPDX-License-Identifier: Apache-2.0
"""Writes and reads the attributes of the targets `callout.v1.*` by the core's tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _ext

UNBOUNDED = 2**63 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attribute:
    """An attribute: a row of a table, see src/core/attributes/attribute_rows.h."""

    name: str
    type: str  # "string", "s64", "s64[]", "dictionary"; in payloads also "string[]", "rest"
    is_required: bool
    fallback: int
    least: int
    most: int
    count: int
    group: int
    most_bytes: int
    choices: Sequence[str]
    absent: str
    since: str
    meaning: str
    entries: Mapping[str, Attribute]
    has_free_entries: bool

    @property
    def default(self) -> str | int | None:
        """Returns the value of an absent string or number; a choice as its name."""
        if self.type == "string":
            return ""
        if self.type == "s64":
            return self.choices[self.fallback] if self.choices else self.fallback
        return None


Table = Mapping[str, Attribute]


def _table(rows: Iterable[Mapping[str, Any]]) -> Table:
    return {row["name"]: Attribute(**{**row, "entries": _table(row["entries"])}) for row in rows}


@functools.cache
def tables() -> Mapping[str, Table]:
    """Returns the tables by target, and by kind of payload, such as "check:"."""
    return {name: _table(rows) for name, rows in {**_ext.target_attributes(), **_ext.program_kinds()}.items() if rows}


def payload(kind: str, **fields: Any) -> str:
    """Returns a name that lists the fields of a callback: "check:1;raise;...". Every process can make that callback.

    Raises:
        TypeError: unknown or missing fields.
    """
    table = tables()[kind]
    if fields.keys() != table.keys():
        raise TypeError(f"callout: the fields of {kind} are {', '.join(table)}, got {', '.join(fields)}")
    return ";".join([f"{kind}1", *(_field(row.type, fields[name]) for name, row in table.items())])


def _field(kind: str, value: Any) -> str:
    if kind == "rest":
        return str(value)
    if kind.endswith("[]"):
        return ",".join(_field(kind[:-2], one) for one in value)
    return "".join(f"%{ord(c):02X}" if c in ";,%" or ord(c) < 32 else c for c in str(value))


def encode(where: str, target: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a call of `target`, for `jax.ffi.ffi_lowering`, without those that have their defaults.

    Choices are given as names, flags as bools. `where`: the call's name in errors. Raises TypeError for an unknown name
    or a value of another type, ValueError for an invalid value.
    """
    return _encode(where, target, tables()[target], values)


def _encode(where: str, of: str, table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in values if name not in table]
    if unknown:
        raise TypeError(f"{where}: {of} has no attribute {unknown[0]!r}; it has {', '.join(table)}")
    missing = [name for name, row in table.items() if row.is_required and name not in values]
    if missing:
        raise TypeError(f"{where}: {of} needs the attribute {missing[0]!r}")
    encoded = {name: _value(where, table[name], value) for name, value in values.items()}
    return {
        name: value for name, value in encoded.items() if table[name].is_required or not _is_default(table[name], value)
    }


def _is_default(row: Attribute, value: Any) -> bool:
    return bool(value == row.fallback) if row.type == "s64" else len(value) == 0


def _value(where: str, row: Attribute, value: Any) -> Any:
    """Converts a value for the program."""
    what = f"{where}: attribute {row.name!r}"
    if row.type == "string":
        return _text(what, row, value)
    if row.type == "s64":
        return np.int64(_number(what, row, value))
    if row.type == "s64[]":
        return _numbers(what, row, value)
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping, got {value!r}")
    if not row.entries or not (value or row.is_required):  # an empty dictionary is left out
        return dict(value)
    if row.has_free_entries:
        ours = {name: entry for name, entry in value.items() if name in row.entries}
        return {**value, **_encode(where, f"{row.name!r}", row.entries, ours)}
    return _encode(where, f"{row.name!r}", row.entries, value)


def _text(what: str, row: Attribute, value: Any) -> str | bytes:
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{what} must be a str, got {value!r}")
    if row.choices and value not in ("", *row.choices):
        raise ValueError(f"{what} must be one of {list(row.choices)}, got {value!r}")
    # A key of a dictionary may be any str. The core escapes lone surrogates in this way, too.
    data = value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value
    if len(data) > row.most_bytes:
        raise ValueError(f"{what} must have at most {row.most_bytes} characters, got {len(data)}")
    return data.decode() if isinstance(value, str) else data


def _number(what: str, row: Attribute, value: Any) -> int:
    if row.choices:
        if value not in row.choices:
            raise ValueError(f"{what} must be one of {list(row.choices)}, got {value!r}")
        return list(row.choices).index(value)
    if not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} must be an integer, got {value!r}")
    if not row.least <= value <= row.most:
        expected = f"at least {row.least}" if row.most == UNBOUNDED else f"{row.least} to {row.most}"
        raise ValueError(f"{what} must be {expected}, got {value}")
    return int(value)


def _numbers(what: str, row: Attribute, value: Any) -> np.ndarray:
    numbers = [_number(what, row, number) for number in np.asarray(value, np.int64).ravel()]
    if (row.count and len(numbers) != row.count) or len(numbers) % row.group:
        expected = f"{row.count} numbers" if row.count else f"groups of {row.group}"
        raise ValueError(f"{what} must be {expected}, got {len(numbers)} numbers")
    return np.asarray(numbers, np.int64)


def read(target: str, carried: Mapping[str, str | int], name: str) -> str | int | None:
    """Returns the string or number `name` of a call of `target` with these attributes; a choice as its name.

    Returns None if the target has no such attribute. Raises KeyError for a name that no target has.
    """
    if not any(name in table for table in tables().values()):
        raise KeyError(f"callout: no target has an attribute {name!r}")
    row = tables().get(target, {}).get(name)
    if row is None:
        return None
    value = carried.get(name, row.default)
    if row.type == "s64" and row.choices and isinstance(value, int) and 0 <= value < len(row.choices):
        return row.choices[value]
    return value


def may_fail_when_full(policy: str | int | None) -> bool:
    """Returns whether a tap with this `on_full` may fail its program. True for unknown policies."""
    return policy not in (None, "block", "drop_newest")


def numbers(target: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns numbers for a call of `target`, written like by `encode`, but including defaults."""
    return {name: _value(target, tables()[target][name], value) for name, value in values.items()}
