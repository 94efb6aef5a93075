# SPDX-License-Identifier: Apache-2.0
"""Everything that only a GPU can show, as one table.

Usage: python benchmarks/python/gpu/check.py [--only GROUP,...] [--out build/gpu-check]
Each group runs in a process of its own, so that one that dies costs its own rows alone. Rows that this machine cannot run
say NOT RUN, and why. Writes table.md and rows.json to the output folder. Exit status 1 if a row failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from rows import ON_SOFTWARE, Row

GROUPS = ("driver", "kernels", "launches", "numba_kernels", "buffers", "calls", "taps", "host", "suites")
_TIMEOUT_S = 500
_MARK = "gpu-check-rows:"


def run_group(name: str) -> list[Row]:
    """The rows of a group, run in a process of its own."""
    command = [sys.executable, __file__, "--inside", name]
    # Rows start processes of their own: JAX's first one must leave them some of the device's memory.
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    limit = ""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, cwd=Path(__file__).parent, env=environment
        )
        output, status = done.stdout, done.returncode
        limit = f"the process ended with {status}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
    except subprocess.TimeoutExpired as late:
        output, status = (late.stdout or b"").decode(), -1
        limit = f"not done after {_TIMEOUT_S} s"
    lines = [line.removeprefix(_MARK) for line in output.splitlines() if line.startswith(_MARK)]
    rows = [Row(**json.loads(line)) for line in lines]
    return rows if status == 0 else [*rows, Row(name, "what came next", "FAILED", limit)]


def inside(name: str) -> None:
    """Runs a group here and prints each row when it is done: a group that dies or hangs has those before."""
    for row in importlib.import_module(name).GROUP.rows():
        print(_MARK + json.dumps(dataclasses.asdict(row)), flush=True)


def environment() -> str:
    """One line: versions and devices."""
    import callout
    import jax
    from callout import _ext

    _, version, devices, reason = _ext.cuda_driver()
    found = ", ".join(f"{name} (sm_{major}{minor})" for _, name, major, minor, _ in devices) or reason
    driver = f"CUDA driver {version // 1000}.{version % 1000 // 10}" if version else "no CUDA driver"
    return (
        f"callout {callout.__version__}, JAX {jax.__version__}, Python {platform.python_version()}, {driver}: {found}"
    )


def table(rows: list[Row]) -> str:
    """As Markdown."""
    lines = ["| group | check | | |", "|---|---|---|---|"]
    for row in rows:
        text = " ".join(row.text.split()).replace("|", "\\|")
        lines.append(f"| {row.group} | {row.name} | {row.status} | {text} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, separated by commas")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[3] / "build" / "gpu-check")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        inside(options.inside)
        return 0
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    head = environment()
    print(head, flush=True)
    rows = []
    for name in wanted:
        rows += run_group(name)
        for row in rows[-1:]:
            print(f"{name}: done, last row: {row.status}", file=sys.stderr)
    for row in rows:
        if ON_SOFTWARE and row.status == "NOT RUN" and "hardware" not in row.text:
            row.status, row.text = "FAILED", f"it should run on the software GPU: {row.text}"
    text = table(rows)
    print(text)
    counts = {status: sum(row.status == status for row in rows) for status in ("ok", "FAILED", "NOT RUN")}
    print("gpu-check: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(f"{head}\n\n{text}\n")
    (options.out / "rows.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
