# SPDX-License-Identifier: Apache-2.0
"""Measures native kernels on the CPU: one call in a loop, lanes of `vmap`, and compilation."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import brainevent_environment
import callout
import compiling
import lanes
from brainevent_environment import Unavailable
from kernel_methods import kernel_methods, missing
from measure import Contender, Row, compare
from program import OPERANDS, CallLoop, Method, steps


@contextlib.contextmanager
def _libraries_in(folder: Path) -> Iterator[None]:
    before = callout.config.cache_dir
    callout.config.cache_dir = folder
    try:
        yield
    finally:
        callout.config.cache_dir = before


def _contender(method: Method, operand: str) -> Contender:
    loop = CallLoop(method, OPERANDS[operand], steps(operand, method.slow), False, rest=1)
    return Contender(method.label, method.role, loop.play)


def _row(operand: str, skipped: dict[str, str], rounds: int) -> Row:
    contenders = [_contender(method, operand) for method in kernel_methods(operand, skipped)]
    return compare(f"kernel/{operand}", f"native kernel, f32 {operand}, calling thread", "us", contenders, rounds)


def _add_brainevent(rows: dict[str, Row], floor: Path, skipped: dict[str, str], rounds: int) -> None:
    try:
        for operand, entries in brainevent_environment.entries(floor, rounds).items():
            rows[operand].entries += entries
    except Unavailable as why:
        skipped["brainevent.numba_kernel"] = str(why)


def run(rounds: int, out: Path, floor: Path, skipped: dict[str, str]) -> list[Row]:
    """Runs the group. Adds contenders that cannot be measured here to `skipped`."""
    known = set(skipped)
    skipped |= missing()
    with _libraries_in(out / "libraries"):
        rows = {operand: _row(operand, skipped, rounds) for operand in OPERANDS}
        _add_brainevent(rows, floor, skipped, rounds)
        more = [lanes.run(rounds, skipped), compiling.run(rounds, skipped)]
    for target in [target for target in skipped if target not in known]:
        print(f"skipped: {target}: {skipped[target]}", flush=True)
    return [*rows.values(), *more]
