# SPDX-License-Identifier: Apache-2.0
"""Writes the figures as tables for a terminal and for the docs, and as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from growth import EXPONENT
from measure import Entry, Row
from tables import Table, as_json, as_markdown, as_text, environment_line
from targets import Verdict

WORK = {
    "taps": "taps to Python",
    "slow_taps": "taps to Python slower than the program, 16 MB queue",
    "native_taps": "taps to a native sink",
    "calls": "calls of Python",
    "compile_callout": "programs with a call and a tap, compiled and deleted",
    "compile_jax": "the same with JAX's callbacks",
    "compile_plain": "programs without callbacks, compiled and deleted",
}


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _ratio(row: Row, entry: Entry, figure: str) -> str:
    """Returns how many times faster an entry is than JAX's own way, or the last of these in the row."""
    others = [e for e in row.entries if e.role == "jax" and figure in e.figures]
    if entry.role != "callout" or not others or figure not in entry.figures:
        return ""
    return f"{others[0].figures[figure] / entry.figures[figure]:.3g}x"


def _cells(row: Row, entry: Entry, names: Sequence[str]) -> list[str]:
    if entry.refused:
        return [entry.label, f"REFUSED: {entry.refused}", *[""] * (2 * len(names) - 1)]
    cells = [entry.label + (f" ({entry.note})" if entry.note else "")]
    for name in names:
        if name not in entry.figures:
            cells += ["", ""]
            continue
        low, high = entry.spread[name]
        cells += [f"{_number(entry.figures[name])} ({_number(low)}..{_number(high)})", _ratio(row, entry, name)]
    return cells


def _table(row: Row) -> Table:
    names = list(dict.fromkeys(name for entry in row.entries for name in entry.figures))
    head = [row.title]
    for name in names:
        head += [name if name == EXPONENT else f"{name}, {row.unit}", "vs JAX"]
    body = [_cells(row, entry, names) for entry in row.entries]
    kept = [i for i in range(len(head)) if i < 2 or any(line[i] for line in body)]
    return [head[i] for i in kept], [[line[i] for i in kept] for line in body]


def _memory_table(memory: Sequence[dict[str, Any]]) -> Table:
    body = [
        [f"{m['count']:,} {WORK[m['work']]}", f"{m['grown_bytes'] / 1024:,.0f}", f"{m['each_bytes']:,.2f}"]
        for m in memory
    ]
    return ["memory, after a warm-up", "growth, KB", "bytes each"], body


def _target_table(verdicts: Sequence[Verdict]) -> Table:
    return ["target", "measured", "met"], [[v.target, v.measured, "yes" if v.met else "NO"] for v in verdicts]


class Report:
    """All results of a run of the benchmarks."""

    def __init__(self, environment: dict[str, str], skipped: dict[str, str]):
        self.environment, self.skipped = environment, skipped
        self.rows: list[Row] = []
        self.memory: list[dict[str, Any]] = []
        self.verdicts: list[Verdict] = []

    def tables(self) -> list[Table]:
        tables = [_table(row) for row in self.rows]
        if self.memory:
            tables.append(_memory_table(self.memory))
        if self.verdicts:
            tables.append(_target_table(self.verdicts))
        return tables

    def refused(self) -> list[str]:
        return [f"{r.title}: {e.label}: {e.refused}" for r in self.rows for e in r.entries if e.refused]

    def text(self) -> str:
        return "\n\n".join(as_text(*table) for table in self.tables())

    def markdown(self) -> str:
        parts = [f"Medians (quartiles) of one run. {environment_line(self.environment)}."]
        parts += [f"Not measured: {target}: {why}." for target, why in self.skipped.items()]
        return "\n\n".join([*parts, *(as_markdown(*table) for table in self.tables())]) + "\n"

    def write(self, out: Path) -> None:
        data = {
            "environment": self.environment,
            "skipped": self.skipped,
            "rows": [row.as_json() for row in self.rows],
            "memory": self.memory,
            "targets": [vars(verdict) for verdict in self.verdicts],
            "tables": as_json(self.tables()),
        }
        (out / "results.json").write_text(json.dumps(data, indent=1) + "\n")
        (out / "benchmarks.md").write_text(self.markdown())
