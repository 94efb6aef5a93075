# SPDX-License-Identifier: Apache-2.0
"""How many of the core's objects live, when nothing is under way any more."""

import gc

import callout
import jax
from callout import _ext
from callout._base import errors
from callout._primitives import eager_taps


def live_counts() -> dict[str, int]:
    live = callout.stats()["live"]
    return {kind: live[kind] for kind in ("callbacks", "sites", "blocks")}


def settle(expected: dict[str, int] | None = None) -> dict[str, int]:
    """Drops what JAX and callout keep for reuse, waits for the queues, and returns the live counts."""
    counts: dict[str, int] = {}
    for attempt in range(4):  # what a barrier delivers may leave garbage
        last = counts
        errors.clear()
        eager_taps.forget()
        if attempt > 0:  # most tests leave nothing that JAX's caches or the collector hold
            jax.clear_caches()
            gc.collect()
        try:
            callout.barrier_wait(timeout=30)
        except callout.TapError:
            errors.clear()
        _ext.drain(30.0)  # retired sites travel through the queues too
        counts = live_counts()
        if counts == (last if expected is None else expected):
            break
    return counts
