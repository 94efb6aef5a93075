# SPDX-License-Identifier: Apache-2.0
"""Writes copies of the core's tables of attributes, dtypes and statistics into other files.

The copies are tables in docs/abi.md and docs/taps.md, lists in src/core/ffi/handlers.h, and python/pure/_ext/tables.py,
which has the tables of calls and taps for the pure-Python wheel. Run the script, with the package and its extension
installed, after a change of these tables. `--check` only reports stale copies.
"""

import inspect
import re
import runpy
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from callout import _ext
from callout._targets.target_attributes import Attribute, Table, tables

ROOT = Path(__file__).resolve().parent.parent
# <!-- attributes of A --> or <!-- attributes of A beside those of B -->, a table, <!-- end of attributes -->
TABLE = re.compile(
    r"(<!-- attributes of (\S+)(?: beside those of (\S+))? -->\n).*?(<!-- end of attributes -->)", re.DOTALL
)
# <!-- counters of callbacks --> or <!-- counters of queues -->, a table, <!-- end of counters -->
COUNTERS = re.compile(r"(<!-- counters of (callback|queue)s -->\n).*?(<!-- end of counters -->)", re.DOTALL)
# A paragraph of a comment that begins with these words.
LIST = re.compile(r"^/// Attributes of (\S+):.*?\.\n", re.MULTILINE | re.DOTALL)
WIDTH = 120
PURE = "python/pure/_ext/tables.py"
PURE_HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Generated: python scripts/write_attributes.py
# ruff: noqa: E501
# fmt: off
"""The attributes of calls and taps, the fields of payloads, the numbers of stats(), and dtypes: their names and bits."""

from __future__ import annotations

from typing import Any

'''
PURE_TARGETS = ("callout.v1.call", "callout.v1.tap")


def _attribute(name: str, meaning: str, **differs: Any) -> dict[str, Any]:
    """An attribute as src/core/attributes/attribute_rows.h describes it, by what differs from the usual."""
    return {
        "name": name,
        "type": "s64",
        "is_required": False,
        "fallback": 0,
        "least": -(2**63),
        "most": 2**63 - 1,
        "count": 0,
        "group": 1,
        "most_bytes": 2**64 - 1,
        "choices": (),
        "absent": "",
        "since": "0.1",
        "meaning": meaning,
        "entries": [],
        "has_free_entries": False,
        **differs,
    }


def _type(row: Attribute) -> str:
    if row.type != "s64[]":
        return row.type
    return f"s64[{row.count or (f'{row.group}n' if row.group > 1 else 'n')}]"


def _default(row: Attribute) -> str:
    if row.is_required:
        return "required"
    if row.absent:
        return row.absent
    return {"string": "empty", "s64": str(row.fallback)}.get(row.type, "none")


def _values(row: Attribute) -> str:
    if row.type == "s64" and row.choices:
        return ", ".join(f"{i} {choice}" for i, choice in enumerate(row.choices))
    if row.choices:
        return ", ".join(f"`{choice}`" for choice in row.choices)
    if row.most < 2**63 - 1:
        return f"{row.least} to {row.most}" if row.most > 1 else f"{row.least}, {row.most}"
    return f"from {row.least}" if row.least > -(2**63) else ""


def _rows(table: Table, inside: str = "") -> Iterator[str]:
    for name, row in table.items():
        cells = [f"{inside}`{name}`", _type(row), _default(row), _values(row), row.since, row.meaning]
        yield f"| {' | '.join(cells)} |\n"
        yield from _rows(row.entries, f"{inside}`{name}`: ")


def _table(match: re.Match[str]) -> str:
    beside: Mapping[str, Attribute] = tables()[match[3]] if match[3] else {}
    rows = {name: row for name, row in tables()[match[2]].items() if name not in beside}
    head = "| attribute | type | default | values | since | meaning |\n|---|---|---|---|---|---|\n"
    return f"{match[1]}{head}{''.join(_rows(rows))}{match[4]}"


def _counters(match: re.Match[str]) -> str:
    metrics = _ext.callback_metrics() if match[2] == "callback" else _ext.queue_metrics()
    rows = [f"| `{key}` | {text} | {kind} `callout_{match[2]}_{name}` |\n" for key, name, kind, text, _ in metrics]
    return f"{match[1]}| number | meaning | for Prometheus |\n|---|---|---|\n{''.join(rows)}{match[3]}"


def _list(match: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in tables()[match[1]])
    lines = textwrap.wrap(f"Attributes of {match[1]}: {names}.", WIDTH - len("/// "), break_on_hyphens=False)
    return "".join(f"/// {line}\n" for line in lines)


def _python(name: str, kind: str, value: Mapping[str, object] | Sequence[object]) -> str:
    """Formats a mapping in full lines, and a sequence with a line for each item."""
    if isinstance(value, Mapping):
        text = ", ".join(f"{key!r}: {item!r}" for key, item in value.items())
        lines, begin, end = textwrap.wrap(text, WIDTH - 4, break_long_words=False), "{", "}"
    else:
        lines, begin, end = [f"{item!r}," for item in value], "[", "]"
    inside = "".join(f"    {line}\n" for line in lines)
    return f"{name}: {kind} = {begin}\n{inside}{end}\n"


def _row(row: Mapping[str, Any], indent: str = "    ") -> str:
    """Formats a row of a table of attributes in one line; a dictionary's rows have lines of their own."""
    usual = _attribute(row["name"], row["meaning"])
    said = [repr(row["name"]), repr(row["meaning"])]
    said += [f"{key}={value!r}" for key, value in row.items() if key != "entries" and value != usual[key]]
    if not row["entries"]:
        return f"{indent}_attribute({', '.join(said)}),\n"
    inner = "".join(_row(entry, indent + "    ") for entry in row["entries"])
    return f"{indent}_attribute({', '.join(said)}, entries=[\n{inner}{indent}]),\n"


def _attributes(name: str, kind: str, value: Mapping[str, Any]) -> str:
    rows = "".join(
        f"    {target!r}: [\n{''.join(_row(row, '        ') for row in table)}    ],\n"
        for target, table in value.items()
    )
    return f"{name}: {kind} = {{\n{rows}}}\n"


def _missing(pattern: re.Pattern[str], text: str) -> list[str]:
    """Returns the names that a file must mention, and does not. The list of handlers leaves out payloads."""
    told = {match[1] if pattern is LIST else match[2] for match in pattern.finditer(text)}
    if pattern is COUNTERS:
        return sorted({"callback", "queue"} - told)
    alike = [tables()[target] for target in told]
    payloads = _ext.program_kinds() if pattern is LIST else {}
    return [name for name, table in tables().items() if table not in alike and name not in payloads]


def _pure() -> dict[str, tuple[str, Any]]:
    """Returns the names of the pure tables with their types and values."""
    return {
        "DTYPE_NAMES": ("dict[str, str]", _ext.DTYPE_NAMES),
        "SUB_BYTE_BITS": ("dict[str, int]", _ext.SUB_BYTE_BITS),
        "CALLBACK_METRICS": ("list[tuple[str, str, str, str, str]]", _ext.callback_metrics()),
        "QUEUE_METRICS": ("list[tuple[str, str, str, str, str]]", _ext.queue_metrics()),
        "TARGET_ATTRIBUTES": (
            "dict[str, list[dict[str, Any]]]",
            {target: _ext.target_attributes()[target] for target in PURE_TARGETS},
        ),
        "PROGRAM_KINDS": ("dict[str, list[dict[str, Any]]]", _ext.program_kinds()),
    }


def _pure_is_stale() -> bool:
    if not (ROOT / PURE).exists():
        return True
    there = runpy.run_path(str(ROOT / PURE))
    return any(there.get(name) != value for name, (_, value) in _pure().items())


def _write_pure() -> None:
    tables_of = "\n".join(
        (_attributes if name in ("TARGET_ATTRIBUTES", "PROGRAM_KINDS") else _python)(name, kind, value)
        for name, (kind, value) in _pure().items()
    )
    (ROOT / PURE).write_text(f"{PURE_HEAD}\n{inspect.getsource(_attribute)}\n\n{tables_of}")


def main() -> int:
    """Writes the files, or with `--check` prints which are stale."""
    stale = []
    if _pure_is_stale():
        stale.append(PURE)
        if "--check" not in sys.argv:
            _write_pure()
    for name, pattern, write in (
        ("docs/abi.md", TABLE, _table),
        ("docs/taps.md", COUNTERS, _counters),
        ("src/core/ffi/handlers.h", LIST, _list),
    ):
        path = ROOT / name
        text = path.read_text()
        written = pattern.sub(write, text)
        if missing := _missing(pattern, text):
            raise SystemExit(f"{name} says nothing of {', '.join(missing)}")
        if written == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(written)
    if stale and "--check" in sys.argv:
        print(f"not what the core's tables say: {', '.join(stale)}; run scripts/write_attributes.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
