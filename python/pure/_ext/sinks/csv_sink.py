# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Csv`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from ..delivery.record import Record
from ..dtypes import kind_of
from ..failures import INVALID_ARGUMENT, Failure, fail
from ..text.elements import element_writer
from ..text.step_counter import StepCounter
from .csv_columns import cell_text, cells_of, check_columns, columns_of, element, elements, line_of
from .file_output import FileOutput
from .file_sink import FileSink
from .options import Options


class CsvSink(FileSink):
    """A line a record. `columns`: chosen, or those of the file; else the first record's."""

    def __init__(self, label: str, file: FileOutput, columns: list[str], is_chosen: bool, steps: StepCounter):
        super().__init__(label, file)
        self._columns = columns
        self._is_chosen = is_chosen
        self._steps = steps

    def deliver(self, record: Record) -> None:
        """Takes a record as all file sinks do; what is wrong with it is said with the sink's name."""
        try:
            super().deliver(record)
        except Failure as failure:
            if failure.code != INVALID_ARGUMENT:
                raise
            text = f"cannot write '{record.info.label}' to '{self.file.path}': {failure.text}"
            raise Failure(failure.code, text) from None

    def line(self, record: Record) -> str:
        """The record's line, in the order of the columns."""
        step = self._steps.next(record)
        if not self._columns:
            self._columns = columns_of(record)
            self.file.set_header(line_of(self._columns))
        cells: dict[str, Callable[[], str]] = {
            "name": lambda: cell_text(record.info.label),
            "step": lambda: str(step),
            "device": lambda: str(record.ordinal),
            "run": lambda: str(record.run),
            "seq": lambda: str(record.sequence),
            "time": lambda: self.time_text(record),
        }
        values, missing = self._values(record)
        if missing and not (self._is_chosen and values):
            columns = line_of(self._columns).removesuffix("\n")
            fail(INVALID_ARGUMENT, f"'{missing}' is none of its columns: {columns}")
        return ",".join(values.get(c) or (cells[c]() if c in cells else "") for c in self._columns) + "\n"

    def _values(self, record: Record) -> tuple[dict[str, str], str]:
        """The record's values by column, and the first element that has none."""
        values: dict[str, str] = {}
        missing = ""
        writers = [element_writer(array, json=False) for array in record.arrays]
        for column, leaf, k in elements(record):
            if column not in self._columns:
                missing = missing or column
                continue
            array = record.arrays[leaf]
            text = writers[leaf](element(array, k))
            # Whole floats end in ".0": readers take a column's type from its digits.
            is_whole_float = kind_of(array.dtype) == "f" and re.fullmatch("[0-9-]+", text)
            values[column] = f"{text}.0" if is_whole_float else text
        return values, missing


def make_csv(label: str, options: Options) -> FileSink:
    """Failure if the file cannot be opened, or has other columns."""
    chosen = options.texts("columns")
    path = options.text("path")
    try:
        check_columns(chosen)
    except Failure as failure:
        raise Failure(failure.code, f"cannot open '{path}' for CSV: {failure.text}") from None
    columns = list(chosen)
    steps = StepCounter()

    def read(held: bytes) -> None:
        header, *lines = held.decode("utf-8", "replace").split("\n")
        found = cells_of(header)
        if found is None:
            _refuse(path, f"its first line is no header: {header}")
        check_columns(found)
        if chosen and found != chosen:
            expected = line_of(chosen).removesuffix("\n")
            _refuse(path, f"its columns are {header}, expected {expected}")
        columns[:] = found
        _resume(steps, found, lines)

    file = FileOutput(options, "CSV", read)
    if columns:
        file.set_header(line_of(columns))
        file.flush()
    return CsvSink(label, file, columns, bool(chosen), steps)


def _refuse(path: str | None, why: str) -> NoReturn:
    raise Failure(INVALID_ARGUMENT, f"cannot append to '{path}': {why}")


def _resume(steps: StepCounter, columns: list[str], lines: list[str]) -> None:
    """So that records without a step of their own go on behind the last one."""
    if not {"name", "step"} <= set(columns):
        return
    name, step = columns.index("name"), columns.index("step")
    for line in lines:
        cells = cells_of(line) if line else None
        if cells is not None and len(cells) > max(name, step) and re.fullmatch("-?[0-9]+", cells[step]):
            steps.resume(cells[name], int(cells[step]))
