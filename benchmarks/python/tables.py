# SPDX-License-Identifier: Apache-2.0
"""Tables of figures: for a terminal, for docs/benchmarks.md, and as the JSON that benchmarks/results keeps.

Usage: python benchmarks/python/tables.py [--check]
Writes the tables of docs/benchmarks.md anew from benchmarks/results, or fails if they differ from it. A table stands below
`<!-- table FILE: KEY -->`, and the line below `<!-- environment FILE -->` says where a file's figures were measured; what is
between them is written by hand. To publish a run, copy its build/bench/results.json to a file there.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
PAGE = RESULTS.parent.parent / "docs/benchmarks.md"
MARKED = re.compile(r"^<!-- (table|environment) (\w+)(?:: (.*))? -->\n(?:.+\n)*", re.MULTILINE)
TABLE = re.compile(r"^\|.*\n(?:\|.*\n)*", re.MULTILINE)

Table = tuple[list[str], list[list[str]]]  # its head, and its lines


def as_text(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in (head, *body)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


def as_json(tables: Sequence[Table]) -> dict[str, Any]:
    """By title, and by the first figure too where two have one title."""
    stored: dict[str, Any] = {}
    for head, body in tables:
        key = head[0] if head[0] not in stored else f"{head[0]}, {head[1]}"
        stored[key] = {"head": head, "body": body}
    return stored


def environment_line(environment: dict[str, str]) -> str:
    return "; ".join(f"{key} {value}" for key, value in environment.items())


def render(page: str, results: dict[str, dict[str, Any]]) -> str:
    """The page with each marked table and line as the results have it. KeyError names what they have not."""

    def written(match: re.Match[str]) -> str:
        kind, file, key = match.groups()
        marker = match[0].split("\n", 1)[0]
        if kind == "environment":
            return f"{marker}\n{environment_line(results[file]['environment'])}.\n"
        return f"{marker}\n{as_markdown(**results[file]['tables'][key])}\n"

    return MARKED.sub(written, page)


def unmarked(page: str) -> list[str]:
    """The first lines of tables that no results stand behind."""
    return [match[0].split("\n", 1)[0] for match in TABLE.finditer(MARKED.sub("", page))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if the page differs")
    check = parser.parse_args().check
    page = PAGE.read_text()
    rendered = render(page, {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*.json")})
    if not check:
        PAGE.write_text(rendered)
    if typed := unmarked(page):
        sys.exit("docs/benchmarks.md: tables without results:\n" + "\n".join(typed))
    if check and rendered != page:
        sys.exit("docs/benchmarks.md differs from benchmarks/results: run python benchmarks/python/tables.py")


if __name__ == "__main__":
    main()
