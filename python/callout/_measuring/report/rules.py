# SPDX-License-Identifier: Apache-2.0
"""The rules of reports. Each rule checks one thing, and yields a finding only if it matters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..tables import duration, percent, size
from .facts import CallbackFacts, Facts

# The report advises no change if all callbacks together took less host time, in seconds.
_WORTH_S = 1e-3
_DOMINANT = 0.5
_LARGE_BYTES = 1 << 20
_COPIED_BYTES = 64 << 10
_MANY = 1000
_SHORT_S = 20e-6
_LONG_S = 100e-6
_LONG_WAIT_S = 0.1


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of a rule."""

    rule: str
    label: str  # of the callback or queue
    text: str
    advice: tuple[str, ...] = ()


Rule: TypeAlias = Callable[[Facts], Iterator[Finding]]


def _share(part: float | None, whole: float | None) -> float:
    return part / whole if part and whole else 0.0


def dominant(facts: Facts) -> Iterator[Finding]:
    """Reports a callback that has most of the host time."""
    if facts.host < _WORTH_S or not facts.callbacks:
        return
    top = facts.callbacks[0]
    share = top.host / facts.host
    if share < _DOMINANT or len(facts.callbacks) == 1:
        return
    text = f"has {percent(share)} of the host time of all callbacks: {duration(top.host)}, {top.count} times"
    yield Finding("dominant", top.label, f"{text} {duration(top.mean_host)}.", ("Begin here.",))


def _less_often(one: CallbackFacts) -> str:
    return f"send less: tap(..., every={10 if one.count >= _MANY else 2}), or min_interval=0.1"


def queue_blocked(facts: Facts) -> Iterator[Finding]:
    """Reports queues in which programs waited for room."""
    for queue in facts.queues:
        if queue.blocked <= 0:
            continue
        text = f"{queue.name} was full, and programs waited for room {queue.blocked} times"
        waiting = [one for one in facts.callbacks if one.room_wait and one.worker == queue.worker]
        if waiting:
            total = sum(one.room_wait or 0.0 for one in waiting)
            most = max(waiting, key=lambda one: one.room_wait or 0.0)
            text += f", {duration(total)} in all, most of it for '{most.label}'"
        advice = [
            'tap(..., every=n) or min_interval= for fewer records; on_full="drop_newest" where losing some is right',
            f"callout.config.queue_bytes = {2 * queue.capacity_bytes} if it comes in bursts",
        ]
        if queue.worker == "python":
            advice.insert(0, "a native sink of callout.sinks instead of a Python function")
        yield Finding("queue_blocked", queue.name, text + ".", tuple(advice))


def queue_high(facts: Facts) -> Iterator[Finding]:
    """Reports queues that were nearly full."""
    for queue in facts.queues:
        share = _share(queue.high_water_bytes, queue.capacity_bytes)
        if queue.blocked <= 0 and share >= 0.8:
            text = f"{queue.name} was {percent(share)} full at its fullest ({size(queue.high_water_bytes)})."
            advice = f"callout.config.queue_bytes = {2 * queue.capacity_bytes} before it blocks programs, or every="
            yield Finding("queue_high", queue.name, text, (advice,))


def drops(facts: Facts) -> Iterator[Finding]:
    """Reports lost records."""
    for one in facts.callbacks:
        if one.drops:
            text = f"lost {one.drops} of {one.drops + one.count} records, since its queue was full."
            advice = (_less_often(one), "a larger callout.config.queue_bytes", 'on_full="block" to lose none')
            yield Finding("drops", one.label, text, advice)


def gil(facts: Facts) -> Iterator[Finding]:
    """Reports calls that waited for the GIL."""
    for one in facts.callbacks:
        share = _share(one.gil_wait, one.device_wait)
        if one.calls and share >= 0.2 and (one.gil_wait or 0.0) >= _WORTH_S:
            text = f"waited for Python's lock (GIL) {duration(one.gil_wait or 0.0)}, {percent(share)} of its calls."
            advice = (
                "callout.tap where the program needs no answer: it never waits for the lock",
                "a native function (callout.numba.numba_kernel, callout.cpp.load_inline) where it does",
                "less Python work in other threads meanwhile, or a shorter sys.setswitchinterval",
            )
            yield Finding("gil", one.label, text, advice)


def copies(facts: Facts) -> Iterator[Finding]:
    """Reports calls that spend much of their time on copies of arguments."""
    for one in facts.callbacks:
        share = _share(one.copy, one.host)
        if one.calls and share >= 0.3 and one.mean_bytes >= _COPIED_BYTES and (one.copy or 0.0) >= _WORTH_S:
            text = f"spent {percent(share)} of its time on copies of {size(one.mean_bytes)} a call."
            advice = (
                "callout.options(fn, zero_copy=True) if it keeps no argument",
                "callout.buffer_callback.buffer_callback to write results in place",
            )
            yield Finding("copies", one.label, text, advice)


def large_records(facts: Facts) -> Iterator[Finding]:
    """Reports taps with large records."""
    for one in facts.callbacks:
        is_tap = one.records if one.records is not None else one.count
        if not is_tap or one.calls or one.mean_bytes < _LARGE_BYTES:
            continue
        what = "a record" if one.records else "a call or record"
        text = f"got {size(one.mean_bytes)} {what}, {size(one.bytes)} in all."
        advice = ["tap what is looked at (a mean, a norm) instead of the array, or every="]
        if facts.devices > 1:
            advice.insert(0, 'tap(..., sharding="local"): each device sends its own shard instead of one the whole')
        yield Finding("large_records", one.label, text, tuple(advice))


def python_taps(facts: Facts) -> Iterator[Finding]:
    """Reports Python taps with many short deliveries."""
    for one in facts.callbacks:
        short = one.mean_host <= _SHORT_S and one.host >= _WORTH_S
        if one.worker == "python" and (one.records or 0) >= _MANY and not one.calls and short:
            text = f"took {one.records} records of {size(one.mean_bytes)} in Python, {duration(one.mean_host)} each."
            advice = ("a native sink of callout.sinks (JsonLines, Print, ...): no Python, no lock", _less_often(one))
            yield Finding("python_taps", one.label, text, advice)


def queue_wait(facts: Facts) -> Iterator[Finding]:
    """Reports records that were delivered late."""
    for one in facts.callbacks:
        wait = one.queue_wait_p95 or 0.0
        if wait >= _LONG_WAIT_S and one.records:
            text = f"got records late: 1 in 20 waited {duration(wait)} or more in the queue."
            advice = [_less_often(one)]
            if one.worker == "python":
                advice.insert(0, "a native sink of callout.sinks, which never waits for Python")
            yield Finding("queue_wait", one.label, text, tuple(advice))


def delivery_gil(facts: Facts) -> Iterator[Finding]:
    """Reports deliveries to Python that waited for the GIL."""
    share = _share(facts.delivery_gil, facts.seconds)
    if share >= 0.3 and any(one.records and one.worker == "python" for one in facts.callbacks):
        text = f"waited for Python's lock (GIL) {duration(facts.delivery_gil or 0.0)}, {percent(share)} of the profile."
        advice = (
            "a native sink of callout.sinks, which needs no lock",
            "less Python work in other threads meanwhile, or a shorter sys.setswitchinterval",
        )
        yield Finding("delivery_gil", "the delivery thread", text, advice)


def slow_function(facts: Facts) -> Iterator[Finding]:
    """Reports programs that wait for a slow Python function."""
    for one in facts.callbacks:
        share = _share(one.function, one.device_wait)
        if one.calls and one.worker == "python" and share >= 0.7 and one.mean_host >= _LONG_S:
            text = f"held the program {duration(one.device_wait or 0.0)}, {percent(share)} of it in the function itself"
            text += f" ({duration(one.mean_host)} a call)."
            advice = (
                "compile what it computes: callout.numba.numba_kernel for NumPy code, callout.cpp.load_inline for C++",
                "callout.tap where the program does not use its result",
            )
            yield Finding("slow_function", one.label, text, advice)


def many_calls(facts: Facts) -> Iterator[Finding]:
    """Reports many short calls, whose time is mostly overhead."""
    for one in facts.callbacks:
        overhead = one.host - (one.function or 0.0) - (one.gil_wait or 0.0)
        often = (one.calls or 0) >= _MANY and one.worker == "python" and one.mean_bytes < _COPIED_BYTES
        if often and one.mean_host <= _SHORT_S and one.host >= 5 * _WORTH_S:
            text = f"was called {one.calls} times, {duration(one.mean_host)} each; {duration(overhead)} were not in it."
            advice = (
                'fewer, larger calls: jax.vmap with vmap_method="broadcast_all" or "expand_dims"',
                "a native function: numba_kernel or callout.cpp calls cost a fifth of a microsecond",
            )
            yield Finding("many_calls", one.label, text, advice)


def synchronous(facts: Facts) -> Iterator[Finding]:
    """Reports calls that hold the main thread, which asynchronous dispatch would free."""
    for one in facts.callbacks:
        share = _share(one.main_thread, facts.seconds)
        if share >= 0.3:
            text = f"held Python's main thread {duration(one.main_thread or 0.0)}, {percent(share)} of the profile."
            advice = ("callout.options(fn, numpy_only=True) if it does not use JAX: programs are then dispatched without "
                      "waiting for it",)  # fmt: skip
            yield Finding("synchronous", one.label, text, advice)


def errors(facts: Facts) -> Iterator[Finding]:
    """Reports failed calls and deliveries."""
    for one in facts.callbacks:
        if one.errors:
            text = f"failed {one.errors} of {one.count} times."
            yield Finding("errors", one.label, text, ("callout.reraise() or barrier_wait() raise the original error",))


RULES: tuple[Rule, ...] = (
    *(errors, drops, queue_blocked, queue_high, dominant, slow_function, gil, copies, many_calls),
    *(python_taps, queue_wait, delivery_gil, large_records, synchronous),
)
