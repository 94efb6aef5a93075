# SPDX-License-Identifier: Apache-2.0
"""Runs all checks that need a GPU, and prints one table.

Usage: python benchmarks/python/gpu/check.py [--only GROUP,...] [--out build/gpu-check]
Each group runs in its own process, so that a crash only loses the group's own rows. Each row is printed when it is
done, so that the rows before a hang are visible. Rows that this machine cannot run say NOT RUN, with the reason. Writes
table.md and rows.json to the output folder. Exits with 1 if a row failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from rows import ON_SOFTWARE, Row

GROUPS = (
    *("driver", "kernels", "limits", "launches", "recordings", "numba_kernels", "buffers", "operands", "calls", "taps"),
    *("costs", "processes", "two_gpus", "host", "manual", "suites"),
)
_TIMEOUT_S = 500
_MARK = "gpu-check-rows:"
_HEAD = "| group | check | | |\n|---|---|---|---|"


def run_group(name: str) -> Iterator[Row]:
    """Runs a group in a process of its own, and yields each row when it is done."""
    command = [sys.executable, __file__, "--inside", name]
    # Rows start further processes, so the first JAX process must leave them some of the device's memory.
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=Path(__file__).parent,
            env=environment,
            start_new_session=True,  # processes that a row has started end with the group
        )
        late = threading.Event()
        timer = threading.Timer(_TIMEOUT_S, lambda: (late.set(), os.killpg(process.pid, signal.SIGKILL)))
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(_MARK):
                    yield Row(**json.loads(line.removeprefix(_MARK)))
            status = process.wait()
        finally:
            timer.cancel()
        if status == 0:
            return
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no output"])[-1]
        how = f"not done after {_TIMEOUT_S} s" if late.is_set() else f"the process ended with {status}: {last}"
        yield Row(name, "what came next", "FAILED", how)


def inside(name: str) -> None:
    """Runs a group in this process and prints each row when it is done, so that a crash or a hang keeps earlier rows."""
    for row in importlib.import_module(name).GROUP.rows():
        print(_MARK + json.dumps(dataclasses.asdict(row)), flush=True)


def environment() -> str:
    """Returns versions and devices in one line."""
    import callout
    import jax
    from callout import _ext

    _, version, devices, reason = _ext.cuda_driver()
    found = ", ".join(f"{name} (sm_{major}{minor})" for _, name, major, minor, _ in devices) or reason
    driver = f"CUDA driver {version // 1000}.{version % 1000 // 10}" if version else "no CUDA driver"
    return (
        f"callout {callout.__version__}, JAX {jax.__version__}, Python {platform.python_version()}, {driver}: {found}"
    )


def line(row: Row) -> str:
    """Returns a row of the table as Markdown."""
    text = " ".join(row.text.split()).replace("|", "\\|")
    return f"| {row.group} | {row.name} | {row.status} | {text} |"


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
    print(_HEAD)
    for name in wanted:
        for row in run_group(name):
            if ON_SOFTWARE and row.status == "NOT RUN" and "hardware" not in row.text:
                row.status, row.text = "FAILED", f"it should run on the software GPU: {row.text}"
            rows.append(row)
            print(line(row), flush=True)
    counts = {status: sum(row.status == status for row in rows) for status in ("ok", "FAILED", "NOT RUN")}
    print("gpu-check: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    options.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join([head, "", _HEAD, *map(line, rows)])
    (options.out / "table.md").write_text(f"{text}\n")
    (options.out / "rows.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
