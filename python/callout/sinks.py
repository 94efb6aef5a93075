# SPDX-License-Identifier: Apache-2.0
"""Receivers of taps. All but `Function` are native: they run on a C++ thread of their own and never take the GIL.

A sink is a tap's target: `callout.tap(sink, {"loss": loss}, name="train")`. It may serve many taps at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import _ext

__all__ = ["Function", "JsonLines", "Null", "Print"]


class _NativeSink:
    """Holds the core's sink; taps know one by this attribute."""

    _callout_callback: _ext.Callback


class Null(_NativeSink):
    """Takes and forgets."""

    def __init__(self, *, name: str = "null"):
        self._callout_callback = _ext.make_null_sink(name)


class Print(_NativeSink):
    """Writes a line a record to standard output: "name: value", with "leaf=value" for a value of several leaves.

    Arrays look like NumPy's, on one line, and are cut in the middle above 1000 elements. Lines are written at the end of
    each batch, past Python's `sys.stdout`: flush that before mixing the two.
    """

    def __init__(self, *, name: str = "print", fd: int = -1):
        """`fd`: a file descriptor that stays open while the sink is used; -1 for standard output."""
        self._callout_callback = _ext.make_print_sink(name, fd)


class JsonLines(_NativeSink):
    """Writes a JSON object a line to a file: {"name", "device", "run", "seq", "time", and the value}.

    A value of several leaves has them under their names ("loss": 0.5), a single array is "value". NaN and infinities are the
    strings "NaN", "Infinity", "-Infinity", since JSON has no numbers for them. Lines are written at the end of each batch.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, append: bool = False, fields: bool = True, name: str = "json_lines"
    ):
        """Opens the file.

        Args:
            path: created if missing, emptied unless `append`.
            append: keep what the file holds.
            fields: write device, run, seq and time too.
            name: what statistics call it.

        Raises:
            RegistrationError: the file cannot be opened.
        """
        self.path = os.fspath(path)
        self._callout_callback = _ext.make_json_lines_sink(name, self.path, append, fields)


class Function:
    """A Python function as a sink: the same as passing the function to `tap`, for code that takes sinks."""

    def __init__(self, fn: Callable[..., Any]):
        if not callable(fn):
            raise TypeError(f"callout.sinks.Function: expected a callable, got {fn!r}")
        self._callout_function = fn
