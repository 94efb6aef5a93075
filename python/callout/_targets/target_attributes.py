# SPDX-License-Identifier: Apache-2.0
"""The attributes of the targets `callout.v1.*`: written to programs, and read from them, by the core's tables."""

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
    """Describes an attribute: a row of a table, see src/core/attributes/attribute_rows.h."""

    name: str
    type: str  # "string", "s64", "s64[]", "dictionary"
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
        """Returns what the absence of a string or a number means; a choice by its name."""
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
    """Returns the table of each target."""
    return {target: _table(rows) for target, rows in _ext.target_attributes().items()}


def encode(where: str, target: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a call of `target` carries, for `jax.ffi.ffi_lowering`; nothing for what is as if it were not there.

    Choices are given by their names, flags as bools. `where` is what errors call the call. TypeError for a name that the
    target does not have, or a value of another type, ValueError for one that there cannot be.
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
    """Makes what the program has of a value."""
    what = f"{where}: attribute {row.name!r}"
    if row.type == "string":
        return _text(what, row, value)
    if row.type == "s64":
        return np.int64(_number(what, row, value))
    if row.type == "s64[]":
        return _numbers(what, row, value)
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping, got {value!r}")
    if not row.entries or not (value or row.is_required):  # an empty one is as if it were not there
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
    # A key of a dictionary may be any str; the core escapes a surrogate that stands alone in the same way.
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
    """Returns what the string or number `name` is in a call of `target` that carries these, a choice by its name.

    None where the target has no such attribute. KeyError for a name that no target has.
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
    """Tells whether a tap with this `on_full` may fail its program. A policy may, unless it is known to let it go on."""
    return policy not in (None, "block", "drop_newest")


def numbers(target: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns numbers that are added to a call of `target`, as `encode` writes them, defaults too."""
    return {name: _value(target, tables()[target][name], value) for name, value in values.items()}
