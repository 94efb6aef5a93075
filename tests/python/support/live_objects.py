# SPDX-License-Identifier: Apache-2.0
"""Counts the live objects of the core when no work is in flight."""

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
    """Drops objects that JAX and callout keep for reuse, waits for the queues, and returns the live counts.

    Waits for the `expected` counts, or until the referent of the weak reference `gone` is dead: a thread of XLA may
    hold a program for a moment after its results are ready. Waits no longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    counts: dict[str, int] = {}
    for attempt in itertools.count():  # deliveries in a barrier may leave garbage
        last = counts
        errors.clear()
        eager.forget_taps()
        if attempt > 0:  # most tests leave nothing in JAX's caches or for the collector
            jax.clear_caches()
            gc.collect()
        try:
            callout.barrier_wait(timeout=30)
        except callout.TapError:
            errors.clear()
        _ext.drain(30.0)  # retired sites travel through the queues, too
        counts = live_counts()
        if counts == (last if expected is None else expected) and (gone is None or gone() is None):
            break
        if attempt > 2:
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)  # XLA does not report when it releases a program
    return counts


def wait_until_gone(gone: Callable[[], Any], seconds: float = 10.0) -> bool:
    """Returns true if the referent of the weak reference `gone` dies within `seconds`, with all caches as they are."""

    def is_gone() -> bool:
        gc.collect()
        live_counts()  # drops references that XLA's threads released
        return gone() is None

    return wait_until(is_gone, seconds)


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Polls until the condition holds or `seconds` have passed; returns whether it holds."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds


def holders() -> dict[str, list[str]]:
    """Returns the types of the objects that hold each live target, by its label.

    XLA's programs hold theirs outside of Python.
    """
    found: dict[str, list[str]] = {}
    targets = list(target._targets.values())
    while targets:
        one = targets.pop()
        others = [each for each in gc.get_referrers(one) if each is not targets and not hasattr(each, "f_code")]
        found.setdefault(one.label, []).extend(sorted(type(each).__qualname__ for each in others))
    return found
