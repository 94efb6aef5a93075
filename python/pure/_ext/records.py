# SPDX-License-Identifier: Apache-2.0
"""Records of taps, and formatting of arrays: XLA's dtype names, numbers, NumPy's layout, formats and trees."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import string
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .process import Failure
from .tables import DTYPE_NAMES, SUB_BYTE_BITS

_sequence = itertools.count(1)
_SHORT = {
    np.dtype(getattr(ml_dtypes, name, name)): short
    for short, name in DTYPE_NAMES.items()
    if hasattr(ml_dtypes, name) or hasattr(np, name)  # an older ml_dtypes may have fewer
}
_KINDS = {"s": "i", "u": "u", "f": "f", "b": "f", "c": "c"}


def short_name(dtype: np.dtype[Any]) -> str | None:
    """Returns XLA's name, "f32"; None for dtypes that XLA does not have."""
    return _SHORT.get(dtype)


def bits_of(dtype: np.dtype[Any]) -> int:
    return SUB_BYTE_BITS.get(dtype.name, 8 * dtype.itemsize)


def kind_of(dtype: np.dtype[Any]) -> str:
    """Returns 'b' for booleans, 'i' and 'u' for integers, 'f' for floats, 'c' for complex numbers, '' for others."""
    short = _SHORT.get(dtype, "")
    return "b" if short == "bool" else _KINDS.get(short[:1], "")


def total_bytes(arrays: Sequence[np.ndarray]) -> int:
    """Returns the bytes of XLA's buffers, where elements of less than a byte are packed."""
    return sum(-(-array.size * bits_of(array.dtype) // 8) for array in arrays)


def index_text(index: Sequence[int]) -> str:
    return f"[{','.join(map(str, index))}]"


def shape_text(dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    """Formats an array's type: "f32[8,4]"."""
    return f"{_SHORT.get(dtype, dtype)}{index_text(shape)}"


def shape_of(array: np.ndarray) -> str:
    return shape_text(array.dtype, array.shape)


def first_integer(array: np.ndarray) -> int | None:
    """Returns the first element of an array of integers of whole bytes; None for others."""
    is_whole = kind_of(array.dtype) in ("i", "u") and bits_of(array.dtype) >= 8
    return int(array.flat[0]) if is_whole and array.size else None


def unravel(flat: int, shape: Sequence[int]) -> list[int]:
    return [int(number) for number in np.unravel_index(flat, tuple(shape))]


def python_number(value: Any, kind: str) -> Any:
    """Returns the Python number of an element, with the fewest digits that read back as the element."""
    if kind == "c":
        return complex(python_number(value.real, "f"), python_number(value.imag, "f"))
    return float(str(value)) if kind == "f" else bool(value) if kind == "b" else int(value)


def word(value: Any, kind: str) -> str:
    """Formats an element; a whole float without a point."""
    return str(python_number(value, kind)).strip("()").removesuffix(".0")


def json_value(value: Any, kind: str) -> Any:
    """Converts an element for JSON, which has no NaN, no infinities and no complex numbers."""
    if kind == "c":
        return [json_value(value.real, "f"), json_value(value.imag, "f")]
    number = python_number(value, kind)
    if kind != "f" or number == 0:
        return number if str(number) != "0.0" else 0
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return int(number) if number.is_integer() and abs(number) < 1e16 else number


def nested(array: Any, element: Callable[[Any], Any]) -> Any:
    """Returns nested lists of the results of `element` for each element."""
    if np.ndim(array) == 0:
        return element(array[()] if isinstance(array, np.ndarray) else array)
    return [nested(part, element) for part in array]


def laid_out(array: np.ndarray, write: Callable[[Any], str], width: int | None = None) -> str:
    """Formats an array in NumPy's layout, with each element formatted by `write`."""
    return np.array2string(array, width, formatter={"all": write}) if array.ndim else write(array[()])


def on_one_line(array: np.ndarray) -> str:
    kind = text_kind(array)
    return re.sub(r"\s+", " ", laid_out(array, lambda value: word(value, kind), 10**9))


def plain(array: np.ndarray) -> str:
    """Formats an array like `str`, with the fewest digits for dtypes that are not Python's."""
    kind = text_kind(array)
    if array.ndim == 0 and (kind != "f" or bits_of(array.dtype) > 8):
        return str(python_number(array[()], kind))
    is_numpys = kind in ("b", "i", "u") or array.dtype in (np.float32, np.float64)
    return np.array2string(array) if is_numpys else on_one_line(array)


def text_kind(array: np.ndarray) -> str:
    """Returns the kind of an array. Raises Failure for dtypes that XLA does not have."""
    if not (kind := kind_of(array.dtype)):
        raise Failure(f"callout: cannot write the text of an array of {array.dtype}")
    return kind


_TEXT, _LEAF, _BREAK, _OPEN, _CLOSE = range(5)
_LINE_WIDTH = 80


class ValueLayout:
    """The layout of a tree: (kind, text, number) pieces. Breaks in a group are spaces if the group fits on the line."""

    def __init__(self, pieces: Sequence[tuple[int, str, int]]):
        self._pieces = list(pieces)

    def join(self, leaves: Sequence[str]) -> str:
        """Returns the text for these texts of the leaves."""
        written = [leaves[number] if kind == _LEAF else text for kind, text, number in self._pieces]
        written = [" " if kind == _BREAK else text for (kind, _, _), text in zip(self._pieces, written, strict=True)]
        ends, begun = {}, []  # the ends of groups, by their begins
        for i, (kind, _, _) in enumerate(self._pieces):
            if kind == _OPEN:
                begun.append(i)
            elif kind == _CLOSE:
                ends[begun.pop()] = i
        out, column, on_one_line = "", 0, [False]
        for i, (kind, _, number) in enumerate(self._pieces):
            if kind == _OPEN:
                on_one_line.append(on_one_line[-1] or column + sum(map(len, written[i : ends[i]])) <= _LINE_WIDTH)
            elif kind == _CLOSE:
                on_one_line.pop()
            elif kind == _BREAK and not on_one_line[-1]:
                out += "\n" + " " * number
                column = number
            else:
                out += written[i]
                column += len(written[i])
        return out

    def text(self, arrays: Sequence[Any], threshold: int, float32_exponents_from: float) -> str | None:
        return None  # NumPy formats all arrays


@dataclasses.dataclass(eq=False)
class Record:
    """A value that a program has sent. `offsets`: begins of its arrays in the whole value, for all dimensions in turn."""

    label: str
    leaf_names: Sequence[str]
    arrays: Sequence[np.ndarray]
    offsets: Sequence[int]
    ordinal: int
    step: int | None
    run: int = 0
    sequence: int = dataclasses.field(default_factory=lambda: next(_sequence))
    time: float = dataclasses.field(default_factory=time.time)

    def behind_first(self) -> Record:
        """Returns the record without its first array."""
        names, arrays, offsets = self.leaf_names[1:], self.arrays[1:], self.offsets[self.arrays[0].ndim :]
        return dataclasses.replace(self, leaf_names=names, arrays=arrays, offsets=offsets)

    def begin_of(self, leaf: int) -> tuple[int, ...]:
        """Returns the begin of an array in the whole value; empty if it is the whole value."""
        first = sum(array.ndim for array in self.arrays[:leaf])
        return tuple(map(int, self.offsets[first : first + self.arrays[leaf].ndim]))


class StepCounter:
    """Finds the step of a record: the tap's step, a leaf called "step", or the successor of the previous step."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def next(self, record: Record) -> int:
        key = (record.label, record.ordinal)
        of_leaves = (step_leaf(*leaf) for leaf in zip(record.leaf_names, record.arrays, strict=False))
        known = (step for step in (record.step, *of_leaves) if step is not None)
        step = next(known, self._next.get(key, 0))
        self._next[key] = step + 1
        return step


def step_leaf(name: str, array: np.ndarray) -> int | None:
    return first_integer(array) if name == "step" and array.ndim == 0 else None


class _Array(NamedTuple):
    """An array for `format`: written by NumPy without a specification, otherwise element by element."""

    array: np.ndarray

    def __str__(self) -> str:
        return plain(self.array)

    def __format__(self, spec: str) -> str:
        kind = kind_of(self.array.dtype)
        exact: Any = {"b": int, "f": float, "c": complex}.get(kind, int)  # with all digits
        return laid_out(self.array, lambda value: format(exact(value), spec)) if spec else str(self)


class _Time(float):
    def __format__(self, spec: str) -> str:
        if spec and not re.search("%[A-Za-z]", spec):
            return super().__format__(spec)
        return time.strftime(spec or "%Y-%m-%d %H:%M:%S", time.localtime(self))


class RecordFormat(string.Formatter):
    """A format string, whose fields are leaves by name or index, and other parts of a record. Used by one thread."""

    def __init__(self, text: str):
        self._text = text
        self._steps = StepCounter()
        try:
            list(self.parse(text))
        except ValueError as error:
            raise Failure(f"callout: cannot print with the format '{text}': {error}") from None

    def text(self, record: Record) -> str:
        """Returns the text of a record. Raises Failure if the record lacks a field that the format string names."""
        self._field = ""
        leaves = dict(zip(record.leaf_names, map(_Array, record.arrays), strict=False))
        whole = leaves.get("") or " ".join(f"{name}={array}" for name, array in leaves.items())
        names = ("value", "name", "step", "device", "run", "seq", "time")
        step = self._steps.next(record)
        own = (whole, record.label, step, record.ordinal, record.run, record.sequence, _Time(record.time))
        values = {**dict(zip(names, own, strict=True)), **leaves}
        try:
            return self.vformat(self._text, tuple(leaves.values()), values)
        except (ValueError, OverflowError) as error:
            named = f" ({{{self._field}}})" if self._field else ""
            raise Failure(f"{self._cannot()}: {error}{named}") from None

    def _cannot(self) -> str:
        at = self._text.find("{" + self._field)
        place = f", at character {at}" if self._field and at >= 0 else ""
        return f"callout: cannot print with the format '{self._text}'{place}"

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Any) -> Any:
        name = re.sub(r"\[([^\]]*)\]", r".\1", field_name)
        self._field = field_name
        if name in kwargs:
            return kwargs[name], name
        if name.isdecimal() and int(name) < len(args):
            return args[int(name)], name
        leaves = ", ".join(f"'{leaf}'" for leaf in list(kwargs)[7:] if leaf)
        known = f"the value's leaves are {leaves}" if leaves else "the value is a single array, {value}"
        fields = "{name}, {step}, {device}, {run}, {seq} and {time}"
        raise Failure(f"{self._cannot()}: there is no '{name}'; {known}, and every record has {fields}")


def check_print_format(format: str, leaves: Sequence[str], dtypes: Sequence[str]) -> None:  # noqa: A002
    """Raises ValueError if these leaves lack a field of the format, by formatting a record of ones."""
    arrays = [np.ones((), getattr(ml_dtypes, name, name)) for name in dtypes]
    try:
        RecordFormat(format).text(Record("", leaves, arrays, (), 0, 0))
    except Failure as failure:
        raise ValueError(str(failure)) from None
