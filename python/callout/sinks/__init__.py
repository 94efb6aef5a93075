# SPDX-License-Identifier: Apache-2.0
"""Sinks receive taps. All but `Function` are native: they run on a C++ thread of their own and never take the GIL.

A sink is a tap's target: `callout.tap(sink, {"loss": loss}, name="train")`. It may serve many taps at once.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack

from .. import _ext
from .._base.public_modules import publish
from .._targets.sink_arguments import FunctionSink
from ._arrays import Arrow, Npy, Zarr
from ._native_sink import FileSink, NativeSink, Path, RotatedFileOptions, close
from ._statistics import Histogram, Statistics, Summary
from ._tee import Tee
from ._tensorboard import TensorBoard

__all__ = [
    "Arrow",
    "Csv",
    "Function",
    "Histogram",
    "JsonLines",
    "Npy",
    "Null",
    "Print",
    "Statistics",
    "Summary",
    "Tee",
    "TensorBoard",
    "Zarr",
    "close",
]
publish(__name__)

_MOST_ELEMENTS = 64  # kMaxCsvElements of the core


class Null(NativeSink):
    """Discards its records: for measurements and tests.

    Args:
        name: the sink's name in errors and counters.

    Example:
        >>> sink = callout.sinks.Null()
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
    """

    def __init__(self, *, name: str = "null"):
        self._make("null", name)


class Print(NativeSink):
    """Writes one line for each record to standard output: "name: value", or what `format` describes.

    A value of several leaves is written as "leaf=value".

    Lines are written at the end of each batch, and bypass Python's `sys.stdout`: flush `sys.stdout` before mixing the
    two.

    Example:
        >>> file = open("out.txt", "w")
        >>> sink = callout.sinks.Print("loss {value:.3f}", fd=file.fileno())
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
        >>> print(open("out.txt").read())
        loss 0.500
    """

    def __init__(
        self,
        format: str | None = None,  # noqa: A002 - the word of str.format
        *,
        update: bool = False,
        color: bool | Literal["auto"] = "auto",
        name: str = "print",
        fd: int = -1,
    ):
        """Reads the format.

        Args:
            format: as for `str.format`: "step {step:>6} loss {loss:.4f}". Fields are the value's leaves by name ({a.b}) or
                place ({}, {0}), {value}, and of the record {name}, {step}, {device}, {run}, {seq} and {time}. Numbers
                take Python's specifications, arrays apply them to their elements, and {time} takes strftime's.
            update: on a terminal, write each record over the one before. Elsewhere each record has a line.
            color: "auto" is for terminals, if a format or `update` is given and neither NO_COLOR nor TERM=dumb is set.
            name: the sink's name in counters, and the name of taps that have none.
            fd: a file descriptor that stays open while the sink is used; -1 for standard output.

        Raises:
            ValueError: a malformed format, with the place. `tap` raises it for fields that its value does not have.
        """
        if color not in (True, False, "auto"):
            raise ValueError(f'callout.sinks.Print: color must be True, False or "auto", got {color!r}')
        if format is not None and not isinstance(format, str):
            raise TypeError(f"callout.sinks.Print: format must be a str, got {format!r}")
        self._format = format
        descriptor = operator.index(fd)
        self._make(
            "print",
            name,
            format=format,
            update=bool(update),
            color=None if color == "auto" else bool(color),
            fd=None if descriptor < 0 else descriptor,
        )

    _SHAPES = ("_format",)

    def _shown(self) -> list[str]:
        return [] if self._format is None else [repr(self._format)]

    def _callout_check(self, sent: Any) -> None:
        if self._format is not None:
            _check_format(self._format, sent.names, sent.dtypes)


@functools.lru_cache(maxsize=1024)  # an eager tap in a loop checks its format every time
def _check_format(fmt: str, leaves: tuple[str, ...], dtypes: tuple[str, ...]) -> None:
    _ext.check_print_format(fmt, leaves, dtypes)


class JsonLines(FileSink):
    """Writes one JSON object for each record to a file: {"name", "device", "run", "seq", "time", and the value}.

    The leaves of a value stand under their names ("loss": 0.5), a single array under "value". NaN and infinities are
    the strings "NaN", "Infinity", "-Infinity", since JSON has no numbers for them. Lines are written at the end of each
    batch.

    Example:
        >>> sink = callout.sinks.JsonLines("run.jsonl")
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
        >>> import json
        >>> record = json.loads(open("run.jsonl").readline())
        >>> record["name"], record["value"]
        ('loss', 0.5)
    """

    _OPTIONS = RotatedFileOptions

    def __init__(self, path: Path, *, fields: bool = True, **file: Unpack[RotatedFileOptions]):
        """Opens the file, which no other sink or process may be writing.

        Args:
            path: created if missing. "{process}" in it becomes `jax.process_index()`.
            fields: write device, run, seq and time too.
            **file: append, replace, fsync, only_process, rotate_bytes, keep and name: see `FileSink`.

        Raises:
            RegistrationError: the file cannot be opened, or is being written already.
        """
        self._open("jsonl", path, file, fields=bool(fields))


class Csv(FileSink):
    """Writes one line for each record to a CSV file, which `pandas.read_csv` reads.

    The columns are name, step, device, time and the leaves of the first record: "loss" for a scalar, "x.0", "x.1" for an
    array of up to 64 elements, "value" for a single array. A record without one of these leaves has an empty cell; a
    record with another leaf is an error at the next barrier.

    Example:
        >>> sink = callout.sinks.Csv("run.csv", columns=["step", "loss"])
        >>> y = jax.jit(lambda x: callout.tap(sink, {"loss": x}, step=7))(jnp.float32(0.5)); callout.barrier_wait()
        >>> print(open("run.csv").read())
        step,loss
        7,0.5
    """

    _OPTIONS = RotatedFileOptions

    def __init__(self, path: Path, *, columns: Sequence[str] | None = None, **file: Unpack[RotatedFileOptions]):
        """Opens the file, which no other sink or process may be writing.

        Args:
            path: created if missing. "{process}" in it becomes `jax.process_index()`.
            columns: the columns in their order: "name", "step", "device", "run", "seq", "time" and leaves. Leaves that
                are not named are then left out.
            **file: append, replace, fsync, only_process, rotate_bytes, keep and name: see `FileSink`.

        Raises:
            RegistrationError: the file cannot be opened, is being written already, or has other columns.
        """
        is_list = columns is None or (not isinstance(columns, str) and all(isinstance(each, str) for each in columns))
        if not is_list or (columns is not None and not columns):
            raise ValueError(f"callout.sinks.Csv: columns must be a list of names, got {columns!r}")
        self._open("csv", path, file, columns=list(columns or ()))

    def _callout_check(self, sent: Any) -> None:
        for leaf, shape in zip(sent.names, sent.shapes, strict=True):
            if shape is not None and math.prod(shape) > _MOST_ELEMENTS:
                raise ValueError(
                    f"callout.sinks.Csv: '{leaf or 'value'}' has shape {list(shape)}, and a CSV file takes arrays of at "
                    f"most {_MOST_ELEMENTS} elements, a column each: tap a part or a mean of it, or write it to another sink"
                )


class Function(FunctionSink):
    """Makes a Python function a sink, for code that takes sinks. `tap` treats the sink like the function.

    Args:
        fn: the function, with the parameters of a tap's function.

    Raises:
        TypeError: `fn` is not callable.

    Example:
        >>> sink = callout.sinks.Function(lambda value: print(value))
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5)); callout.barrier_wait()
        0.5
    """

    def __init__(self, fn: Callable[..., Any]):
        if not callable(fn):
            raise TypeError(f"callout.sinks.Function: expected a callable, got {fn!r}")
        self._callout_function = fn

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the function, because a handle belongs to one process."""
        return Function, (self._callout_function,)

    def __repr__(self) -> str:
        if self._callout_function is None:
            return f"Function({self._callout_leaf!r})"
        return f"Function({self._callout_function!r})"
