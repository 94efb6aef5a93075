# SPDX-License-Identifier: Apache-2.0
"""Measures brainevent's numba_kernel in its own virtual environment, to keep its packages out of Callout's."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from floor import HERE, ROOT
from measure import Entry, Row

ENVIRONMENT = ROOT / "build/bench/brainevent"
REQUIREMENTS = ROOT / "requirements/bench-brainevent.txt"
INSTALL_SECONDS, LOOP_SECONDS = 900, 600


class Unavailable(Exception):  # noqa: N818 - a verdict, not a failure of the benchmark
    """brainevent cannot be measured here."""


def _run(what: str, command: Sequence[str | Path], seconds: int) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=clean, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{what}: not done after {seconds} s") from error
    except OSError as error:
        raise Unavailable(f"{what}: {error}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        why = next((line for line in said if line.startswith("ERROR:")), said[-1])  # of pip, or else of Python
        raise Unavailable(f"{what}: {why[:200]}")
    return done.stdout


def _prepare() -> Path:
    """Returns the environment's Python. Rebuilds the environment if this Python or the requirements have changed."""
    python, stamp = ENVIRONMENT / "bin/python", ENVIRONMENT / "stamp"
    wanted = f"{sys.version}\n{REQUIREMENTS.read_text()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"setting up {ENVIRONMENT}", flush=True)
    _run("no virtual environment", [sys.executable, "-m", "venv", "--clear", ENVIRONMENT], INSTALL_SECONDS)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--retries", "1"]
    _run("it was not installed", [*pip, "-r", REQUIREMENTS], INSTALL_SECONDS)
    stamp.write_text(wanted)
    return python


def entries(floor: Path, rounds: int) -> dict[str, list[Entry]]:
    """Returns, for each operand, brainevent's figure, and the floor that was measured beside it.

    Raises:
        Unavailable: with the reason.
    """
    command = [_prepare(), HERE / "brainevent_loop.py", floor, str(rounds)]
    found = json.loads(_run("the loop failed", command, LOOP_SECONDS).splitlines()[-1])
    note = "own environment: " + ", ".join(" ".join(item) for item in found["versions"].items())
    rows = {operand: Row.from_json(row) for operand, row in found["rows"].items()}
    for row in rows.values():
        for entry in row.entries:
            entry.note = note
            entry.label = entry.label.replace("floor:", "floor there:")
    return {operand: row.entries for operand, row in rows.items()}
