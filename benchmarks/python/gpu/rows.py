# SPDX-License-Identifier: Apache-2.0
"""The rows of `ci/gpu_check.sh`: functions that return a text, or raise the reason why they did not run."""

from __future__ import annotations

import dataclasses
import functools
import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# `software_gpu/run` sets the variable. Times on the software GPU have no meaning, so measurements only run a few steps,
# to check results.
ON_SOFTWARE = "CALLOUT_SOFTWARE_GPU_DEVICES" in os.environ


class NotRunError(Exception):
    """This machine lacks a requirement of the row, which the text names."""


class WrongError(Exception):
    """The result was wrong; the text has expected and got."""


@dataclasses.dataclass
class Row:
    """One line of the table. `status`: "ok", "FAILED" or "NOT RUN"; `text`: figures, or the reason."""

    group: str
    name: str
    status: str
    text: str


@dataclasses.dataclass(frozen=True)
class Check:
    """A check that makes a row. `run` returns the row's text."""

    name: str
    run: Callable[[], str]


class Group:
    """The rows of one module, in the order in which they were written."""

    def __init__(self, name: str):
        self.name = name
        self.checks: list[Check] = []

    def row(self, name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
        """Returns a decorator that adds a function as a row."""

        def add(run: Callable[[], str]) -> Callable[[], str]:
            self.checks.append(Check(name, run))
            return run

        return add

    def rows(self) -> Iterator[Row]:
        """Runs all rows in order. The text of a row that raises an error is the error."""
        for check in self.checks:
            yield _run(self.name, check)


def _run(group: str, check: Check) -> Row:
    try:
        return Row(group, check.name, "ok", check.run())
    except NotRunError as reason:
        return Row(group, check.name, "NOT RUN", str(reason))
    except Exception as error:  # noqa: BLE001 - the row reports any error
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Row(group, check.name, "FAILED", f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")


@functools.cache
def gpu() -> Any:
    """Returns JAX's first CUDA device. Raises NotRunError without one."""
    import jax

    try:
        return jax.devices("cuda")[0]
    except RuntimeError as error:
        raise NotRunError(f"JAX has no CUDA device here: {str(error).splitlines()[0]}") from error


def need(module: str) -> Any:
    """Imports a package. Raises NotRunError if it is missing."""
    import importlib

    if ON_SOFTWARE and module in ("cupy", "torch"):
        raise NotRunError(f"the kernels of {module} are machine code: needs hardware")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NotRunError(f"needs {module}: {error}") from error


def expect(what: str, expected: object, got: object) -> None:
    """Raises WrongError unless `expected` and `got` are equal, as arrays or values."""
    import numpy as np

    if not np.array_equal(np.asarray(expected), np.asarray(got)):
        raise WrongError(f"{what}: expected {expected}, got {got}")


def microseconds(run: Callable[[], object], repeats: int = 9, calls: int = 1) -> float:
    """Returns the median time of `run`, divided by `calls`."""
    import jax

    jax.block_until_ready(run())
    times = []
    for _ in range(1 if ON_SOFTWARE else repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return statistics.median(times) / calls * 1e6


def side_by_side(names: Sequence[str], figures: Sequence[float], unit: str = "us") -> str:
    """Returns text such as "ours 2.1 us, theirs 20 us (9.5x)", with the ratio of each figure to the first one."""
    parts = [f"{name} {figure:.3g} {unit}" for name, figure in zip(names, figures, strict=True)]
    ratios = [f"{figure / figures[0]:.1f}x" for figure in figures[1:]]
    return ", ".join(parts) + (f" ({', '.join(ratios)})" if ratios else "")
