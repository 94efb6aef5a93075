# SPDX-License-Identifier: Apache-2.0
"""The columns of a CSV file, and its text (RFC 4180; a line feed in a cell is written as two characters)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

import numpy as np

from ..delivery.record import Record
from ..dtypes import shape_of, unravel
from ..failures import INVALID_ARGUMENT, fail
from ..text.step_counter import step_leaf

_MOST_ELEMENTS = 64
FIELDS = ("name", "step", "device", "run", "seq", "time")
_OWN = ("name", "step", "device", "time")


def cell_text(text: str) -> str:
    """A cell as the file has it."""
    if not any(c in text for c in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""').replace("\n", "\\n") + '"'


def line_of(cells: Sequence[str]) -> str:
    """The line of these cells, with its end."""
    return ",".join(map(cell_text, cells)) + "\n"


def cells_of(line: str) -> list[str] | None:
    """None if it is none of CSV."""
    try:
        rows = list(csv.reader([line.removesuffix("\n")], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def check_columns(columns: Sequence[str]) -> None:
    """Failure if a name is missing or there twice."""
    for i, column in enumerate(columns):
        if not column:
            fail(INVALID_ARGUMENT, "a column has no name")
        if column in columns[:i]:
            fail(INVALID_ARGUMENT, f"two columns are called '{column}'")


def elements(record: Record) -> Iterator[tuple[str, int, int]]:
    """(column, leaf, element) of each leaf that is not the step."""
    for i, (leaf, array) in enumerate(zip(record.info.leaf_names, record.arrays, strict=False)):
        if step_leaf(leaf, array) is not None:
            continue
        column = "value" if not leaf else f"value.{leaf}" if leaf in FIELDS else leaf
        if array.size > _MOST_ELEMENTS:
            fail(
                INVALID_ARGUMENT,
                f"'{column}' is {shape_of(array)}: a CSV file takes arrays of at most {_MOST_ELEMENTS} elements, a column "
                "each",
            )
        for k in range(array.size):
            yield "".join([column, *(f".{number}" for number in unravel(k, array.shape))]), i, k


def columns_of(record: Record) -> list[str]:
    """Those of a file whose first record this is."""
    columns = [*_OWN, *(column for column, _, _ in elements(record))]
    check_columns(columns)
    return columns


def element(array: np.ndarray, k: int) -> object:
    """The k-th, row-major."""
    return array.reshape(-1)[k]
