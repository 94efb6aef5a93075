# SPDX-License-Identifier: Apache-2.0
"""The texts of checks: which values they show, and where in the user's code they stand."""

from __future__ import annotations

import string
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ... import _ext
from ..._base.arguments import as_leaves, is_array_like, refuse_tracers
from ..._base.errors import printable
from ..._primitives.site import leaf_names

# What the core knows of every failure; {time} takes strftime's specifications.
OF_THE_PLACE = ("lane", "index", "step", "device", "run", "time")

# src/sinks/inspectors/check.cc, which counts the predicate among the operands.
_MOST_BYTES = 1 << 16
_MOST_ARRAYS = (1 << 10) - 1


class Fields:
    """The fields of a text, as they are resolved: `format` is the text with numbers of `arrays` in their place."""

    def __init__(self, where: str, text: str, values: Sequence[Any], named: Mapping[str, Any], x: Any):
        if not isinstance(text, str):
            raise TypeError(f"{where}: the text must be a str, got {text!r}")
        self._where, self._text, self._values, self._named, self._x = where, text, values, named, x
        refuse_tracers(where, "the text", text, 'write fields, "x is {x}", and pass the values, x=x')
        self.arrays: list[Any] = []
        self._numbers: dict[Any, list[int]] = {}
        self._used: set[Any] = set()
        try:
            pieces = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"{where}: the text {text!r}: {error}") from None
        self._is_numbered = any(field is not None and (field == "" or field.isdigit()) for _, field, _, _ in pieces)
        self.format = printable("".join(self._written(pieces)))
        unused = [i for i in range(len(values)) if i not in self._used] + [n for n in named if n not in self._used]
        if unused:
            raise ValueError(f"{where}: the text {text!r} does not use the values {unused}")
        self._check()

    def _written(self, pieces: Sequence[tuple[str, str | None, str | None, str | None]]) -> Iterator[str]:
        automatic = 0
        for literal, field, spec, conversion in pieces:
            yield literal.replace("{", "{{").replace("}", "}}")
            if field is None:
                continue
            if field == "":
                field, automatic = str(automatic), automatic + 1
            rest = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            yield self._field(field, rest, spec or "")

    def _field(self, field: str, rest: str, spec: str) -> str:
        if field.isdigit() and int(field) < len(self._values):
            self._used.add(int(field))
            return self._shown(int(field), self._values[int(field)], rest, spec)
        if field in self._named:
            self._used.add(field)
            return self._shown(field, self._named[field], rest, spec)
        if field == "value":
            return self._checked_value(rest, spec)
        if field in OF_THE_PLACE:
            return "{" + field + rest + "}"
        known = [*range(len(self._values)), *self._named, "value", *OF_THE_PLACE]
        raise ValueError(f"{self._where}: the text {self._text!r} has a field {field!r}; there are {known}")

    def _checked_value(self, rest: str, spec: str) -> str:
        """Shows the values without a name if no field shows them by number, else `x`; never a value with a name."""
        if self._values and not self._is_numbered:
            self._used |= set(range(len(self._values)))
            if len(self._values) == 1:
                return self._shown(0, self._values[0], rest, spec)
            return " ".join(f"{i}={self._shown(i, value, rest, spec)}" for i, value in enumerate(self._values))
        if self._x is not None:
            return self._shown("value", self._x(), rest, spec)
        raise ValueError(
            f"{self._where}: the text {self._text!r} has a field 'value', which shows the values without a name, and there "
            "are none that no other field shows"
        )

    def _shown(self, key: Any, value: Any, rest: str, spec: str) -> str:
        leaves = jax.tree.leaves(value)
        if len(leaves) == 1 and not is_array_like(leaves[0]):  # it cannot enter a program, and is what it is
            try:
                shown = format(leaves[0], spec)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{self._where}: the text {self._text!r}, value {key!r}: {error}") from None
            return shown.replace("{", "{{").replace("}", "}}")
        if key not in self._numbers:
            first = len(self.arrays)
            self.arrays += [_whole_bytes(leaf) for leaf in as_leaves(self._where, leaves, jax.tree.structure(value))]
            self._numbers[key] = list(range(first, len(self.arrays)))
        fields = [f"{{{number}{rest}}}" for number in self._numbers[key]]
        if len(fields) == 1:
            return fields[0]
        names = leaf_names(value)
        return " ".join(
            f"{name.replace('{', '{{').replace('}', '}}')}={field}" for name, field in zip(names, fields, strict=True)
        )

    def _check(self) -> None:
        """Raises ValueError for what the core cannot write."""
        size = len(self.format.encode())
        if size > _MOST_BYTES:
            raise ValueError(f"{self._where}: the text must have at most {_MOST_BYTES} bytes, got {size}")
        if len(self.arrays) > _MOST_ARRAYS:
            raise ValueError(f"{self._where}: the text shows at most {_MOST_ARRAYS} arrays, got {len(self.arrays)}")
        names = [*map(str, range(len(self.arrays))), "lane", "index"]
        dtypes = [str(jax.numpy.result_type(array)) for array in self.arrays]
        try:
            _ext.check_print_format(self.format, names, [*dtypes, "int64", "int64"])
        except ValueError as error:
            raise ValueError(f"{self._where}: the text {self._text!r}: {error}") from None


def _whole_bytes(value: Any) -> Any:
    """Returns elements of less than a byte as such of one, or of four."""
    dtype = jax.numpy.result_type(value)
    if dtype.name not in _ext.SUB_BYTE_BITS:
        return value
    kinds = (
        (jax.numpy.signedinteger, np.int8),
        (jax.numpy.unsignedinteger, np.uint8),
        (jax.numpy.floating, np.float32),
    )
    whole = next(whole for kind, whole in kinds if jax.numpy.issubdtype(dtype, kind))
    return jax.numpy.asarray(value).astype(whole)


def user_line() -> str:
    """Tells where the caller stands: "file.py:12 in f"."""
    frame: Any = sys._getframe(1)
    ours = __name__.partition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == ours:
        frame = frame.f_back
    if frame is None:
        return ""
    return printable(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}")
