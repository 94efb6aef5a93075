# SPDX-License-Identifier: Apache-2.0
"""The sinks `Print`, `JsonLines`, `Csv` and `Null`. Each writes a whole record at a time, on the delivery thread."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import handles, process, records
from .calls import Callback, makers
from .process import Failure, as_error, escaped, refuse
from .records import Record, RecordFormat, StepCounter

_MOST_ELEMENTS = 64
_written: weakref.WeakValueDictionary[str, FileSink] = weakref.WeakValueDictionary()


def _write(file: int, text: str, what: str) -> None:
    rest = text.encode("utf-8", "replace")
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError as error:
        raise Failure(f"cannot write to {what}: {error.strerror}") from None


class Null(Callback):
    """Discards its records."""

    is_native = True

    def __init__(self, label: str, options: dict[str, Any]):
        super().__init__(label)
        self.options = options


class SinkByHandle(Null):
    """Passes each record to the sink whose handle is the record's first array."""

    def receiver(self, record: Record) -> tuple[Callback, Record]:
        return handles.object_of(record.arrays[0].tolist(), "sink"), record.behind_first()


makers["sink"] = lambda _, label: SinkByHandle(label, {})


class Print(Null):
    """Writes a line to a file descriptor."""

    def __init__(self, label: str, options: dict[str, Any]):
        super().__init__(label, options)
        self._fd = int(options.get("fd", 1))
        self._format = RecordFormat(options["format"]) if "format" in options else None

    def deliver(self, record: Record) -> None:
        if self._format is not None:
            text = self._format.text(record)
        else:
            named = zip(record.leaf_names, map(records.on_one_line, record.arrays), strict=False)
            text = " ".join([f"{record.label}:", *(f"{name}={value}" if name else value for name, value in named)])
        _write(self._fd, f"{text}\n", "standard output" if self._fd == 1 else f"file descriptor {self._fd}")


class FileSink(Null):
    """A file that no other sink of this process writes. Nothing is written in a forked child."""

    WHAT = ""

    def __init__(self, label: str, options: dict[str, Any]):
        super().__init__(label, options)
        self.path: str = options["path"]
        cannot = f"cannot open '{self.path}' for {self.WHAT}"
        if is_written_here(self.path):
            raise Failure(f"{cannot}: another sink of this process is writing it; close that one first")
        with contextlib.suppress(OSError):  # `open` raises the error
            Path(self.path).absolute().parent.mkdir(parents=True, exist_ok=True)
        try:
            self.file = open(self.path, "ab", buffering=0)  # noqa: PTH123, SIM115 - a path may be no Path
        except OSError as error:
            raise Failure(f"{cannot}: {error.strerror}") from None
        if options.get("append") != "true":
            self._truncate(0)
        _written[os.path.realpath(self.path)] = self

    def _truncate(self, size: int) -> None:
        with contextlib.suppress(OSError):  # devices and pipes cannot be truncated
            self.file.truncate(size)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def line(self, record: Record) -> str:
        raise NotImplementedError

    def write(self, text: str) -> None:
        """Writes a text completely or not at all."""
        if self.file.closed or process.is_forked_child():
            why = ": it is closed" if self.file.closed else " in a forked child"
            raise Failure(f"cannot write to '{self.path}'{why}")
        size = os.fstat(self.file.fileno()).st_size
        try:
            _write(self.file.fileno(), text, f"'{self.path}'")
        except Failure as failure:
            self._truncate(size)
            raise Failure(f"{failure}; 1 records are lost") from None

    def deliver(self, record: Record) -> None:
        self.write(self.line(record))


class JsonLines(FileSink):
    """Writes one JSON object for each record."""

    WHAT = "JSON lines"

    def line(self, record: Record) -> str:
        own: dict[str, Any] = {"name": record.label} | ({} if record.step is None else {"step": record.step})
        if self.options.get("fields") != "false":
            own |= {"device": record.ordinal, "run": record.run, "seq": record.sequence, "time": round(record.time, 6)}
        for leaf, array in zip(record.leaf_names, record.arrays, strict=False):
            name, kind = leaf or "value", records.text_kind(array)
            while name in own or name in Csv.FIELDS[2:]:  # rename a leaf that would hide another member
                name = f"value.{name}"
            own[name] = records.nested(array, functools.partial(records.json_value, kind=kind))
        return json.dumps(own, ensure_ascii=False) + "\n"


class Csv(FileSink):
    """Writes one line for each record (RFC 4180). Columns are chosen, the file's, or else the first record's."""

    WHAT = "CSV"
    FIELDS = ("name", "step", "device", "run", "seq", "time")

    def __init__(self, label: str, options: dict[str, Any]):
        self._columns: list[str] = options.get("columns", [])
        self._is_chosen = bool(self._columns)
        self._steps = StepCounter()
        _check_columns(self._columns)
        super().__init__(label, options)
        held = Path(self.path).read_text("utf-8", "replace") if self.file.seekable() and self.file.tell() else ""
        if not held:
            self.write(_line_of(self._columns) if self._is_chosen else "")
            return
        found = next(csv.reader(io.StringIO(held)))
        _check_columns(found)
        if self._is_chosen and found != self._columns:
            self.file.close()
            expected, columns = _line_of(self._columns).removesuffix("\n"), held.partition("\n")[0]
            raise Failure(f"cannot append to '{self.path}': its columns are {columns}, expected {expected}")
        self._columns = found

    def line(self, record: Record) -> str:
        try:
            values = dict(_elements(record))
            if not self._columns:
                columns = ["name", "step", "device", "time", *values]
                _check_columns(columns)
                self._columns = columns
                self.write(_line_of(columns))
            missing = [column for column in values if column not in self._columns]
            if missing and not (self._is_chosen and len(missing) < len(values)):
                known = _line_of(self._columns).removesuffix("\n")
                raise Failure(f"'{missing[0]}' is none of its columns: {known}")
        except Failure as failure:
            raise Failure(f"cannot write '{record.label}' to '{self.path}': {failure}") from None
        of_record = (record.label, self._steps.next(record), record.ordinal, record.run, record.sequence)
        cells = dict(zip(self.FIELDS, (*map(str, of_record), f"{record.time:.6f}"), strict=True)) | values
        return _line_of([cells.get(column, "") for column in self._columns])


def _line_of(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([cell.replace("\n", "\\n") for cell in cells])
    return out.getvalue()


def _check_columns(columns: Sequence[str]) -> None:
    if not all(columns):
        raise Failure("a column has no name")
    if twice := [column for column in columns if columns.count(column) > 1]:
        raise Failure(f"two columns are called '{twice[0]}'")


def _elements(record: Record) -> Iterator[tuple[str, str]]:
    """Yields (column, text) for each element of each leaf, except for the step."""
    for leaf, array in zip(record.leaf_names, record.arrays, strict=False):
        if records.step_leaf(leaf, array) is not None:
            continue
        column, kind = f"value.{leaf}" if leaf in Csv.FIELDS else leaf or "value", records.text_kind(array)
        if array.size > _MOST_ELEMENTS:
            text = f"a CSV file takes arrays of at most {_MOST_ELEMENTS} elements, a column each"
            raise Failure(f"'{column}' is {records.shape_of(array)}: {text}")
        for index in np.ndindex(array.shape):
            text = str(records.python_number(array[index], kind)).strip("()")
            yield "".join([column, *(f".{number}" for number in index)]), text


_KINDS: dict[str, tuple[type[Null], set[str]]] = {
    "null": (Null, set()),
    "print": (Print, {"format", "fd"}),
    "jsonl": (JsonLines, {"path", "append", "fields"}),
    "csv": (Csv, {"path", "append", "columns"}),
}


def make_sink(label: str, kind: str, options: Sequence[tuple[str, str]]) -> Callback:
    """Makes a sink. Raises an error for an option that the kind does not know.

    `options` are pairs of a name and a value as text. An option whose value is a list has a pair for each element.
    """
    if kind not in _KINDS:
        refuse(f"'{label}', a sink of the kind '{kind}',")
    make, known = _KINDS[kind]
    given: dict[str, Any] = {}
    for name, value in options:
        if name not in known and value not in ("false", "never"):
            refuse(f"the sink '{label}': the option {name!r} ({name}={value})")
        text = value if name == "path" else escaped(value)
        given[name] = [*given.get(name, ()), text] if name == "columns" else text
    try:
        return make(label, given)
    except Failure as failure:
        raise as_error(failure, "registration") from None


def is_written_here(path: str) -> bool:
    """Returns whether a sink of this process writes the file."""
    sink = _written.get(os.path.realpath(path))
    return sink is not None and not sink.file.closed


def close_file(sink: Any) -> None:
    """Closes a sink's file. Idempotent."""
    if not isinstance(sink, FileSink):
        raise as_error(f"callout: '{getattr(sink, 'label', '')}' writes no file", "registration")
    sink.file.close()


def close_files_at(path: str) -> int:
    """Closes the sink that writes the path, and returns the number of such sinks."""
    sink = _written.pop(os.path.realpath(path), None)  # only one of several threads gets it
    if sink is None or sink.file.closed:
        return 0
    sink.file.close()
    return 1
