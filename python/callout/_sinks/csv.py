# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Csv`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _ext
from .file_sink import FileArguments, FileSink, Fsync, Path

_MOST_ELEMENTS = 64  # kMaxCsvElements of the core


class Csv(FileSink):
    """Writes a line a record to a CSV file, as `pandas.read_csv` takes them.

    The columns are name, step, device, time and the leaves of the first record: "loss" for a scalar, "x.0", "x.1" for an
    array of up to 64 elements, "value" for a single array. A record without one of them has an empty cell; one with another
    leaf is an error at the next barrier.
    """

    def __init__(
        self,
        path: Path,
        *,
        append: bool = False,
        replace: bool = False,
        columns: Sequence[str] | None = None,
        fsync: Fsync = "never",
        rotate_bytes: int | None = None,
        keep: int | None = None,
        name: str = "csv",
    ):
        """Opens the file, which no other sink or process may be writing.

        Args:
            path: created if missing, emptied unless `append`. "{process}" in it becomes `jax.process_index()`.
            append: keep what the file holds, but for a line at its end that a process did not finish. Columns are those of
                the file, and steps go on behind its last ones.
            replace: first close the sink of this process that writes the file, if there is one: for a cell of a notebook
                that is run again. Taps of programs that were traced with that sink fail from then on.
            columns: these, in this order: "name", "step", "device", "run", "seq", "time" and leaves. Other leaves are left
                out then.
            fsync: "never", after each "batch", or at most every so many seconds.
            rotate_bytes: a file that would become larger is renamed to PATH.1, and PATH.1 to PATH.2 and so on. Each has the
                header.
            keep: how many renamed files stay; all by default.
            name: what statistics call it.

        Raises:
            RegistrationError: the file cannot be opened, is being written already, or has other columns.
        """
        is_list = columns is None or (not isinstance(columns, str) and all(isinstance(each, str) for each in columns))
        if not is_list or (columns is not None and not columns):
            raise ValueError(f"callout.sinks.Csv: columns must be a list of names, got {columns!r}")
        arguments = FileArguments.of(
            "Csv", path, append=append, replace=replace, fsync=fsync, rotate_bytes=rotate_bytes, keep=keep
        )
        self.path = arguments.path
        self._callout_callback = arguments.make(_ext.make_csv_sink, name, list(columns or ()))

    def _callout_check(self, leaves: Sequence[str], _: Any, shapes: Sequence[tuple[int, ...] | None]) -> None:
        for leaf, shape in zip(leaves, shapes, strict=True):
            if shape is not None and math.prod(shape) > _MOST_ELEMENTS:
                raise ValueError(
                    f"callout.sinks.Csv: '{leaf or 'value'}' has shape {list(shape)}, and a CSV file takes arrays of at "
                    f"most {_MOST_ELEMENTS} elements, a column each: tap a part or a mean of it, or write it to another sink"
                )
