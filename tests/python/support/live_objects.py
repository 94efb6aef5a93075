# SPDX-License-Identifier: Apache-2.0
"""How many of the core's objects live, when nothing is under way any more."""

import gc
import itertools
import time
from collections.abc import Callable
from typing import Any

import callout
import jax
from callout import _ext
from callout._base import errors
from callout._primitives import eager
from callout._targets import target


def live_counts() -> dict[str, int]:
    live = callout.stats()["live"]
    return {kind: live[kind] for kind in ("callbacks", "sites", "blocks")}


def settle(
    expected: dict[str, int] | None = None, gone: Callable[[], Any] | None = None, seconds: float = 10.0
) -> dict[str, int]:
    """Drops what JAX and callout keep for reuse, waits for the queues, and returns the live counts.

    Waits for the `expected` counts, or until what `gone` refers to weakly is no more: a thread of XLA may hold a program
    for a moment after its results are there. Waits no longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    counts: dict[str, int] = {}
    for attempt in itertools.count():  # what a barrier delivers may leave garbage
        last = counts
        errors.clear()
        eager.forget_taps()
        if attempt > 0:  # most tests leave nothing that JAX's caches or the collector hold
            jax.clear_caches()
            gc.collect()
        try:
            callout.barrier_wait(timeout=30)
        except callout.TapError:
            errors.clear()
        _ext.drain(30.0)  # retired sites travel through the queues too
        counts = live_counts()
        if counts == (last if expected is None else expected) and (gone is None or gone() is None):
            break
        if attempt > 2:
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)  # XLA tells nobody when it lets go
    return counts


def wait_until_gone(gone: Callable[[], Any], seconds: float = 10.0) -> bool:
    """Tells whether what `gone` refers to weakly dies by itself: with all caches as they are."""

    def is_gone() -> bool:
        gc.collect()
        live_counts()  # it drops what threads of XLA have let go of
        return gone() is None

    return wait_until(is_gone, seconds)


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Looks until the condition holds, which nobody tells; whether it does at the end."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds


def holders() -> dict[str, list[str]]:
    """The types of what holds each target that lives, by its label; nothing of Python's holds those of XLA's programs."""
    found: dict[str, list[str]] = {}
    targets = list(target._targets.values())
    while targets:
        one = targets.pop()
        others = [each for each in gc.get_referrers(one) if each is not targets and not hasattr(each, "f_code")]
        found.setdefault(one.label, []).extend(sorted(type(each).__qualname__ for each in others))
    return found
