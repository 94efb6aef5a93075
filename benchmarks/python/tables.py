# SPDX-License-Identifier: Apache-2.0
"""Writes tables of figures for a terminal, for Markdown pages, and as the JSON files of benchmarks/results.

Usage: python benchmarks/python/tables.py [--check]
Rewrites the tables of docs/performance.md, docs/chunks.md, benchmarks/results.md, README.md and docs/index.md from
benchmarks/results, or, with --check, fails if they differ. A table of a page is below `<!-- table FILE: KEY -->`, and
the line below `<!-- environment FILE -->` describes where a file's figures were measured; the text between them is
written by hand. README.md and docs/index.md have rows of the first table of at_a_glance.json below `<!-- glance -->`.
To publish a run, copy its build/bench/results.json to a file in benchmarks/results.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
ROOT = RESULTS.parent.parent
PAGES = ("docs/performance.md", "docs/chunks.md", "benchmarks/results.md")
FRONTS = ("README.md", "docs/index.md")
# The rows of the front pages, and their rows in the first table of at_a_glance.json.
GLANCE = {
    "`pure_callback` to a Python function": "`pure_callback` to Python",
    "`tap` to a Python function; `jax.debug.callback`": "`tap` to Python, on the program's side; JAX: `debug.callback`",
    "a scalar of each step in a JSON-lines file; `jax.debug.callback` and `json`": (
        "a scalar of each step to a JSON-lines file, delivered; JAX: `debug.callback` and `json`"
    ),
}
GLANCE_HEAD = ["in a loop of a compiled program, us each", "Callout", "JAX", "JAX / Callout"]
MARKED = re.compile(r"^<!-- (table|environment) (\w+)(?:: (.*))? -->\n(?:.+\n)*", re.MULTILINE)
GLANCED = re.compile(r"^<!-- glance -->\n(?:\|.+\n)*", re.MULTILINE)
TABLE = re.compile(r"^\|.*\n(?:\|.*\n)*", re.MULTILINE)

Table = tuple[list[str], list[list[str]]]  # (head, lines)


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
    """Returns the tables by title, and also by the first figure if two tables have one title."""
    stored: dict[str, Any] = {}
    for head, body in tables:
        key = head[0] if head[0] not in stored else f"{head[0]}, {head[1]}"
        stored[key] = {"head": head, "body": body}
    return stored


def environment_line(environment: dict[str, str]) -> str:
    return "; ".join(f"{key} {value}" for key, value in environment.items())


def render(page: str, results: dict[str, dict[str, Any]]) -> str:
    """Returns the page with each marked table and line from the results. Raises KeyError for missing ones."""

    def written(match: re.Match[str]) -> str:
        kind, file, key = match.groups()
        marker = match[0].split("\n", 1)[0]
        if kind == "environment":
            return f"{marker}\n{environment_line(results[file]['environment'])}.\n"
        return f"{marker}\n{as_markdown(**results[file]['tables'][key])}\n"

    return MARKED.sub(written, page)


def render_front(page: str, results: dict[str, dict[str, Any]]) -> str:
    """Returns a front page with its rows from the results. Raises KeyError for a missing row or column."""
    table = next(iter(results["at_a_glance"]["tables"].values()))
    columns = [table["head"].index(name) for name in GLANCE_HEAD[1:]]
    rows = {row[0]: [row[column] for column in columns] for row in table["body"]}
    body = [[label, *rows[row]] for label, row in GLANCE.items()]
    return GLANCED.sub(lambda _: f"<!-- glance -->\n{as_markdown(GLANCE_HEAD, body)}\n", page)


def unmarked(page: str) -> list[str]:
    """Returns the first lines of tables without a mark."""
    return [match[0].split("\n", 1)[0] for match in TABLE.finditer(MARKED.sub("", page))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if a page differs")
    check = parser.parse_args().check
    results = {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*.json")}
    for name in PAGES:
        if typed := unmarked((ROOT / name).read_text()):
            sys.exit(f"{name}: tables without results:\n" + "\n".join(typed))
    for name, renderer in (*((page, render) for page in PAGES), *((front, render_front) for front in FRONTS)):
        page = (ROOT / name).read_text()
        rendered = renderer(page, results)
        if check and rendered != page:
            sys.exit(f"{name} differs from benchmarks/results: run python benchmarks/python/tables.py")
        if not check:
            (ROOT / name).write_text(rendered)


if __name__ == "__main__":
    main()
