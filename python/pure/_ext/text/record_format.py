# SPDX-License-Identifier: Apache-2.0
"""A record in a format of the user's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..delivery.record import Record
from ..dtypes import kind_of
from ..failures import Failure
from .format_string import Field, fail_at, parse_format
from .plain import plain, worded
from .step_counter import StepCounter

_OF_RECORD = ("value", "name", "step", "device", "run", "seq", "time")
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_SAMPLES: dict[str, Any] = {"b": True, "i": 1, "u": 1, "f": 1.0, "c": 1j}

NO_COLOURS = ("", "", "")
TERMINAL_COLOURS = ("\x1b[1m", "\x1b[36m", "\x1b[0m")  # around a name, around a value, behind both


def python_number(value: Any, kind: str) -> Any:
    """What Python formats."""
    if kind == "c":
        return complex(value)
    return float(value) if kind == "f" else int(value)


def _local_time(seconds: float, spec: str) -> str:
    return time.strftime(spec, time.localtime(seconds))


class RecordFormat:
    """The format string of one sink or check."""

    def __init__(self, text: str):
        """Failure for a malformed format."""
        self._text = text
        self._pieces = parse_format(text)
        self._steps = StepCounter()
        self._checked: tuple[Any, ...] | None = None

    def check(self, leaves: Sequence[str], dtypes: Sequence[np.dtype[Any]]) -> None:
        """Failure if it asks for what a value of these leaves does not have."""
        key = (tuple(leaves), tuple(dtypes))
        if self._checked == key:
            return
        for piece in self._pieces:
            if isinstance(piece, Field):
                self._check(piece, self._find(piece, leaves), dtypes)
        self._checked = key

    def _find(self, field: Field, leaves: Sequence[str]) -> int | str:
        """The number of a leaf, or what it is of the record."""
        if field.name in leaves:
            return list(leaves).index(field.name)
        if field.name.isascii() and field.name.isdigit() and int(field.name) < len(leaves):
            return int(field.name)
        if field.name not in _OF_RECORD:
            names = ", ".join(f"'{name}'" for name in leaves if name)
            known = f"the value's leaves are {names}" if names else "the value is a single array, {value}"
            fail_at(
                self._text,
                field.position,
                f"there is no '{field.name}'; {known}, and every record has {{name}}, {{step}}, {{device}}, {{run}}, "
                "{seq} and {time}",
            )
        return 0 if field.name == "value" and list(leaves) == [""] else field.name

    def _check(self, field: Field, found: int | str, dtypes: Sequence[np.dtype[Any]]) -> None:
        if field.is_time:
            if found == "time" and not field.as_text:
                return
            fail_at(self._text, field.position, f"Invalid format specifier '{field.spec}'")
        sample: Any = 1
        if isinstance(found, int):
            kind = kind_of(dtypes[found])
            if not kind:
                fail_at(self._text, field.position, f"cannot write the text of an array of {dtypes[found]}")
            sample = _SAMPLES[kind]
        if found in ("name", "value") or field.as_text or (found == "time" and not field.spec):
            sample = ""
        elif found == "time":
            sample = 1.0
        try:
            format(sample, field.spec)
        except (ValueError, OverflowError) as error:
            fail_at(self._text, field.position, f"{error} ({{{field.name}}})")

    def text(self, record: Record, colours: tuple[str, str, str] = NO_COLOURS) -> str:
        """The text of a record. Failure as `check`."""
        step = self._steps.next(record)
        leaves = record.info.leaf_names[: len(record.arrays)]
        self.check(leaves, [array.dtype for array in record.arrays])
        of_name, of_value, end = colours
        parts = []
        for piece in self._pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            found = self._find(piece, leaves)
            begin = of_name if found == "name" else of_value
            parts += [begin, self._field(piece, found, record, step), end]
        return "".join(parts)

    def _field(self, field: Field, found: int | str, record: Record, step: int) -> str:
        if field.as_text:
            return format(self._field(Field(field.name, "", False, field.position), found, record, step), field.spec)
        if isinstance(found, int):
            array = record.arrays[found]
            if not field.spec:
                return plain(array)
            kind = kind_of(array.dtype)
            return worded(array, lambda value: format(python_number(value, kind), field.spec))
        if found == "time":
            if not field.spec or field.is_time:
                return _local_time(record.time, field.spec or _TIME_FORMAT)
            return format(record.time, field.spec)
        return format(self._of_record(found, record, step), field.spec)

    def _of_record(self, found: str, record: Record, step: int) -> Any:
        if found == "value":
            named = zip(record.info.leaf_names, record.arrays, strict=False)
            return " ".join(f"{name}={plain(array)}" if name else plain(array) for name, array in named)
        return {
            "name": record.info.label,
            "step": step,
            "device": record.ordinal,
            "run": record.run,
            "seq": record.sequence,
        }[found]


def check_print_format(format: str, leaves: Sequence[str], dtypes: Sequence[str]) -> None:  # noqa: A002
    """ValueError if it asks for what these leaves do not have."""
    import ml_dtypes

    kinds = [np.dtype(getattr(ml_dtypes, name, name)) for name in dtypes]
    try:
        RecordFormat(format).check(leaves, kinds)
    except Failure as failure:
        raise ValueError(failure.text) from None
