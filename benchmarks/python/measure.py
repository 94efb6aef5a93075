# SPDX-License-Identifier: Apache-2.0
"""Runs rounds of contenders in turns, and computes medians. Contenders with wrong results are refused."""

import dataclasses
import gc
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Self


class Refused(Exception):  # noqa: N818 - a verdict, not a failure of the benchmark
    """The contender's result is wrong, or records are missing."""


@dataclasses.dataclass
class Contender:
    label: str
    role: str
    play: Callable[[], dict[str, float]]  # one round: figures by name; raises Refused
    note: str = ""


@dataclasses.dataclass
class Entry:
    label: str
    role: str
    note: str
    figures: dict[str, float]  # medians
    spread: dict[str, tuple[float, float]]  # quartiles
    rounds: int
    refused: str = ""


@dataclasses.dataclass
class Row:
    """A comparison of contenders."""

    key: str
    title: str
    unit: str
    entries: list[Entry]

    def value(self, label: str, figure: str) -> float:
        return next(e.figures[figure] for e in self.entries if e.label == label)

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**{**data, "entries": [Entry(**entry) for entry in data["entries"]]})


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return low, high


def _entry(contender: Contender, results: list[dict[str, float]], refused: str) -> Entry:
    names = list(results[0]) if results and not refused else []
    columns = {name: [result[name] for result in results] for name in names}
    return Entry(
        contender.label,
        contender.role,
        contender.note,
        {name: statistics.median(values) for name, values in columns.items()},
        {name: _quartiles(values) for name, values in columns.items()},
        len(results),
        refused,
    )


def compare(key: str, title: str, unit: str, contenders: Sequence[Contender], rounds: int) -> Row:
    """Runs a warm-up round of each, then `rounds` rounds of all in turn. The order changes, because it has an effect."""
    results: list[list[dict[str, float]]] = [[] for _ in contenders]
    refused = [""] * len(contenders)
    order = list(range(len(contenders)))
    shuffle = random.Random(0).shuffle
    gc.collect()
    for number in range(rounds + 1):
        shuffle(order)
        for i in order:
            if refused[i]:
                continue
            try:
                figures = contenders[i].play()
            except Refused as error:
                refused[i] = str(error)
                continue
            if number > 0:
                results[i].append(figures)
    return Row(key, title, unit, [_entry(*triple) for triple in zip(contenders, results, refused, strict=True)])
