# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Print`."""

from __future__ import annotations

import functools
from typing import Any, Literal

from .. import _ext
from .native_sink import NativeSink


class Print(NativeSink):
    """Writes a line a record to standard output: in a format, or "name: value" ("leaf=value" for a value of several leaves).

    Lines are written at the end of each batch, past Python's `sys.stdout`: flush that before mixing the two.
    """

    def __init__(
        self,
        format: str | None = None,  # noqa: A002 - what str.format calls it
        *,
        update: bool = False,
        color: bool | Literal["auto"] = "auto",
        name: str = "print",
        fd: int = -1,
    ):
        """Reads the format.

        Args:
            format: as for `str.format`: "step {step:>6} loss {loss:.4f}". Fields are the value's leaves by name ({a.b}) or
                place ({}, {0}), {value}, and of the record {name}, {step}, {device}, {run}, {seq} and {time}. Numbers take
                Python's specifications, arrays take them for their elements, {time} takes those of strftime.
            update: on a terminal, write each record over the one before. Elsewhere it is a line a record.
            color: "auto" is for terminals, if a format or `update` is given and neither NO_COLOR nor TERM=dumb is set.
            name: what statistics call it, and the name of taps without one.
            fd: a file descriptor that stays open while the sink is used; -1 for standard output.

        Raises:
            ValueError: a malformed format, with the place. `tap` raises it for fields that its value does not have.
        """
        if color not in (True, False, "auto"):
            raise ValueError(f'callout.sinks.Print: color must be True, False or "auto", got {color!r}')
        if format is not None and not isinstance(format, str):
            raise TypeError(f"callout.sinks.Print: format must be a str, got {format!r}")
        self._format = format
        self._callout_callback = _ext.make_print_sink(
            name, fd, format, bool(update), None if color == "auto" else bool(color)
        )

    def _callout_check(self, leaves: tuple[str, ...], dtypes: tuple[str, ...], _: Any) -> None:
        if self._format is not None:
            _check_format(self._format, leaves, dtypes)


@functools.lru_cache(maxsize=1024)  # an eager tap in a loop asks every time
def _check_format(fmt: str, leaves: tuple[str, ...], dtypes: tuple[str, ...]) -> None:
    _ext.check_print_format(fmt, leaves, dtypes)
