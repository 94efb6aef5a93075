# SPDX-License-Identifier: Apache-2.0
"""Compares the measured speed with the targets of benchmarks/results.md."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import compiling
import fallback
import lanes
import progress
from kernel_methods import CPP_KERNEL, NUMBA_KERNEL
from measure import Row


@dataclasses.dataclass
class Verdict:
    target: str
    measured: str
    met: bool


Rows = dict[str, Row]
FLOOR = "floor: C++ FFI handler"


def _over_floor(rows: Rows, key: str, label: str, limit: float, figure: str = "program") -> Verdict:
    row = rows[key]
    floor = row.value(FLOOR, figure if figure == "a step" else "program")
    value = row.value(label, figure)
    name = f"{row.title}: {label}, {figure} <= floor + {limit:g} us"
    return Verdict(name, f"{value:.3f} us, floor + {value - floor:.3f} us", value <= floor + limit)


def _at_most(rows: Rows, key: str, label: str, limit: float, figure: str) -> Verdict:
    value, unit = rows[key].value(label, figure), rows[key].unit
    return Verdict(f"{rows[key].title}: {label}, {figure} <= {limit:g} {unit}", f"{value:.3f} {unit}", value <= limit)


def _ratio(rows: Rows, key: str, label: str, other: str, limit: float, figure: str) -> Verdict:
    """Checks that `label` takes at most `limit` times as long as `other`."""
    value, base = rows[key].value(label, figure), rows[key].value(other, figure)
    name = f"{rows[key].title}: {label}, {figure} <= {limit:g} x {other}"
    return Verdict(name, f"{value:.3g} / {base:.3g} {rows[key].unit} = {value / base:.2f} x", value <= limit * base)


def _beside(rows: Rows, key: str, label: str, other: str, limit: float, figure: str) -> Verdict:
    """Checks that `label` takes at most `limit` longer than `other`."""
    value, base = rows[key].value(label, figure), rows[key].value(other, figure)
    name = f"{rows[key].title}: {label}, {figure} <= {other} + {limit:g} us"
    return Verdict(name, f"{value:.3g} us, {other} {base:.3g} us", value <= base + limit)


def _faster(rows: Rows, key: str, label: str, other: str, times: float) -> Verdict:
    value, base = rows[key].value(label, "program"), rows[key].value(other, "program")
    name = f"{rows[key].title}: {label} >= {times:g} x faster than {other}"
    return Verdict(name, f"{base:.3g} / {value:.3g} {rows[key].unit} = {base / value:.3g} x", base >= times * value)


def _rate(rows: Rows, key: str, label: str, limit: float) -> Verdict:
    rate = 1 / rows[key].value(label, "delivered")
    return Verdict(f"{rows[key].title}: {label} >= {limit:g} million records/s", f"{rate:.2f} million/s", rate >= limit)


def _returns(rows: Rows, key: str, label: str) -> Verdict:
    returns, ready = (rows[key].value(label, figure) for figure in ("call returns", "result ready"))
    name = f"{rows[key].title}: {label}: its caller does not wait"
    return Verdict(name, f"goes on after {returns:.2f} of {ready:.2f} ms", returns <= 0.2 * ready)


# The largest possible speedup of lanes, less a fifth.
LANE_SPEEDUP = 0.8 * min(len(os.sched_getaffinity(0)), lanes.LANES)
PYTHON_TAP, NATIVE_TAP = "callout.tap, Python", "callout.tap, native sink"
CHECKS: Sequence[Callable[[Rows], Verdict]] = (
    lambda r: _over_floor(r, "call/scalar/inline", "callout, Python", 0.6),
    lambda r: _over_floor(r, "call/scalar/pool", "callout, Python, numpy_only", 0.6),
    lambda r: _faster(r, "call/scalar/inline", "callout, Python", "jax.pure_callback", 60),
    lambda r: _over_floor(r, "call/scalar/inline", "callout, C++ function", 0.05),
    lambda r: _over_floor(r, "tap/scalar/inline", PYTHON_TAP, 0.4),
    lambda r: _at_most(r, "tap/scalar/inline", PYTHON_TAP, 1.5, "delivered"),
    lambda r: _at_most(r, "tap/scalar/pool", PYTHON_TAP, 2.0, "delivered"),
    lambda r: _over_floor(r, "tap/scalar/inline", NATIVE_TAP, 0.2),
    lambda r: _rate(r, "tap/scalar/inline", NATIVE_TAP, 2),
    lambda r: _rate(r, "tap/scalar/pool", NATIVE_TAP, 2),
    lambda r: _ratio(r, "call/1 MB/inline", "callout, Python", f"{FLOOR}, 2 copies", 1.3, "program"),
    lambda r: _ratio(r, "tap/1 MB/inline", PYTHON_TAP, f"{FLOOR}, 1 copy", 1.3, "program"),
    lambda r: _ratio(r, "tap/1 MB/inline", NATIVE_TAP, f"{FLOOR}, 1 copy", 1.3, "program"),
    lambda r: _ratio(r, "dispatch/call", "callout, Python", "plain jit", 2, "a call"),
    lambda r: _ratio(r, "dispatch/tap", PYTHON_TAP, "jax.debug.callback", 1, "a call"),
    lambda r: _ratio(r, "dispatch/ordered", "callout.tap, ordered, callout.threaded", "plain jit", 2, "a call"),
    lambda r: _returns(r, "wait/tap", PYTHON_TAP),
    lambda r: _returns(r, "wait/ordered", "callout.tap, ordered, callout.threaded"),
    lambda r: _returns(r, "wait/call", "callout, Python, numpy_only"),
    lambda r: _ratio(r, "busy/call", "callout, Python", "jax.pure_callback", 1, "program"),
    lambda r: _over_floor(r, "busy/tap/dense", PYTHON_TAP, 0.5),
    lambda r: _over_floor(r, "kernel/scalar", CPP_KERNEL, 0.08),
    lambda r: _over_floor(r, "kernel/scalar", CPP_KERNEL, 0.05),
    lambda r: _over_floor(r, "kernel/scalar", NUMBA_KERNEL, 0.08),
    lambda r: _over_floor(r, "kernel/scalar", NUMBA_KERNEL, 0.05),
    lambda r: _over_floor(r, "check/scalar", "callout.error_if", 0.05, "a step"),
    *(
        lambda r, other=other: _beside(r, "fallback/call", "callout, Python", other, 5, "program")
        for other in (fallback.BARE, "jax.pure_callback")
    ),
    lambda r: _over_floor(r, "call/scalar/inline", "callout, C++ function", 0.03),
    lambda r: _ratio(r, "eager/results", "callout.pure_callback", "x + 1", 1.5, "a call"),
    lambda r: _ratio(r, "eager/results", "callout.io_callback, ordered", "x + 1", 1.5, "a call"),
    lambda r: _ratio(r, "eager/none", "callout.tap", "x + 1", 1.5, "a call"),
    lambda r: _at_most(r, "growth/1..1000", "taps of a chain, compiled", 10_000, "1,000"),
    lambda r: _at_most(r, "growth/10..10000", "callbacks of a program, on separate inputs, compiled", 12_000, "10,000"),
    lambda r: _faster(r, "buffer/nothing/scalar", "callout.buffer_callback", "jax.experimental.buffer_callback", 5),
    lambda r: _faster(r, "buffer/copy/scalar", "callout.buffer_callback", "jax.experimental.buffer_callback", 3),
    lambda r: _faster(r, "lanes", "callout.cpp, parallel", "callout.cpp, sequential", LANE_SPEEDUP),
    lambda r: _faster(r, "lanes", "callout.numba, parallel", "callout.numba, sequential", LANE_SPEEDUP),
    lambda r: _at_most(r, "compile", compiling.COLD, 1500, "compiled"),
    *(
        lambda r, n=n, label=label: _at_most(r, f"progress/{n}", label, 15, "over")
        for n in progress.STEPS
        for label in ("callout scan_tqdm", "callout progress")
    ),
)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Returns one verdict for each target whose rows were measured."""
    by_key = {row.key: row for row in rows}
    found = []
    for check in CHECKS:
        try:
            found.append(check(by_key))
        except (KeyError, StopIteration):  # the group was skipped, or the contender was refused
            continue
    return found
