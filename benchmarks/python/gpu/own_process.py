# SPDX-License-Identifier: Apache-2.0
"""Runs functions in their own process: functions that crash, hang, or need settings at the start."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rows import WrongError

_MARK = "own-process:"


class NotOverError(WrongError):
    """The process still ran at its time limit."""

    def __init__(self, text: str, err: str):
        super().__init__(f"{text}: {_last(err)}")
        self.err = err


def run_alone(
    program: Callable[[], object],
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 120,
    may_end_badly: bool = False,
    under: Sequence[str] = (),
) -> tuple[str, str]:
    """Runs a function of a module in a process. Returns its result as text, and the process's standard error.

    Raises WrongError if the process fails or does not reach the function's end, NotOverError after `timeout_s` seconds.
    `may_end_badly`: the process may fail after the function, but must end. `under`: a command that runs the process.
    """
    command = [*under, sys.executable, __file__, program.__module__, program.__name__]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, **(environment or {})},
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise NotOverError(f"not over after {timeout_s:g} s", err) from None
    results = [line.removeprefix(_MARK).strip() for line in out.splitlines() if line.startswith(_MARK)]
    if not results or (process.returncode != 0 and not may_end_badly):
        raise WrongError(f"the process ended with {process.returncode}: {_last(out)}; {_last(err)}")
    return results[-1], err


def flags(*more: str) -> dict[str, str]:
    """Returns XLA's flags of this process with `more`, which take precedence."""
    return {"XLA_FLAGS": " ".join([os.environ.get("XLA_FLAGS", ""), *more]).strip()}


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def main() -> None:
    module, name = sys.argv[1:]
    print(_MARK, getattr(importlib.import_module(module), name)(), flush=True)


if __name__ == "__main__":
    main()
