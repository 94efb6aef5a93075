# SPDX-License-Identifier: Apache-2.0
"""Summarizes a recording for each callback."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import tables
from .recording import KIND, WORKERS, Recording

_NS = 1e-9


def _distribution(nanoseconds: np.ndarray) -> dict[str, float]:
    """Returns sum, median, 95th percentile and maximum, in seconds."""
    if not len(nanoseconds):
        return {"total": 0.0, "p50": 0.0, "p95": 0.0, "max": 0.0}
    p50, p95 = np.percentile(nanoseconds, (50, 95))
    return {
        "total": float(nanoseconds.sum()) * _NS,
        "p50": float(p50) * _NS,
        "p95": float(p95) * _NS,
        "max": float(nanoseconds.max()) * _NS,
    }


class CallbackTimes(dict[str, dict[str, Any]]):
    """The times of each callback; prints as a table, by falling host time."""

    def table(self) -> str:
        """Returns an aligned table."""
        if not self:
            return "No callback ran."
        header = ("callback", "calls", "records", "bytes", "host", "p50", "p95", "max", "in queue p95", "device held")
        rows = []
        for label, one in self.items():
            host, held = one["host"], one["device_wait"]
            times = (host["total"], host["p50"], host["p95"], host["max"], one["queue_wait"]["p95"], held["total"])
            numbers = (one["calls"], one["records"], tables.size(one["bytes"]), *map(tables.duration, times))
            rows.append((label, *numbers, one["drops"]))
        return tables.aligned((*header, "dropped"), rows)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return tables.as_html(self.table())


class _Events:
    """Holds one callback's events, sorted by kind."""

    def __init__(self, events: np.ndarray):
        order = np.argsort(events["kind"], kind="stable")
        self.events = events[order]
        self.bounds = np.searchsorted(self.events["kind"], np.arange(len(KIND) + 1))

    def of(self, *kinds: str) -> np.ndarray:
        parts = [self.events[self.bounds[KIND[kind]] : self.bounds[KIND[kind] + 1]] for kind in kinds]
        return np.concatenate(parts)

    def durations(self, *kinds: str) -> np.ndarray:
        events = self.of(*kinds)
        return np.asarray(events["end"] - events["begin"])

    def seconds(self, kind: str) -> float:
        return float(self.durations(kind).sum()) * _NS


def _row(events: _Events) -> dict[str, Any]:
    taken = events.of("call", "delivery")
    queued = events.of("delivery")
    queued = queued[queued["queued"] != 0]
    workers = events.of("call", "delivery", "tap", "drop")["worker"]
    return {
        "worker": WORKERS[int(workers[0])] if len(workers) else WORKERS[0],
        "calls": len(events.of("call")),
        "records": len(events.of("delivery")),
        "taps": len(events.of("tap")),
        "drops": len(events.of("drop")),
        "errors": int(taken["failed"].sum()),
        "bytes": int(taken["bytes"].sum()),
        "host": _distribution(events.durations("call", "delivery")),
        "queue_wait": _distribution(np.maximum(queued["begin"] - queued["queued"], 0)),
        "device_wait": _distribution(events.durations("call", "tap", "drop", "wait for taps")),
        "room_wait_seconds": events.seconds("wait for room"),
        "gil_wait_seconds": events.seconds("wait for GIL"),
        "copy_seconds": events.seconds("copy"),
        "function_seconds": events.seconds("function"),
        "flush_seconds": events.seconds("flush"),
    }


def summarize(recording: Recording) -> CallbackTimes:
    """Returns a row for each label with calls or taps."""
    raw = recording.raw
    order = np.argsort(raw["label"], kind="stable")
    labels = raw["label"][order]
    bounds = np.searchsorted(labels, np.arange(len(recording.labels) + 1))
    rows = {}
    for number, label in enumerate(recording.labels):
        events = raw[order[bounds[number] : bounds[number + 1]]]
        if np.isin(events["kind"], [KIND[kind] for kind in ("call", "tap", "drop", "delivery", "flush")]).any():
            rows[label or "(other)"] = _row(_Events(events))
    return CallbackTimes(sorted(rows.items(), key=lambda item: -item[1]["host"]["total"]))


def main_thread_seconds(recording: Recording) -> dict[str, float]:
    """Returns for each label how long calls of compiled programs held the process's main thread."""
    threads = [number for number, (ident, _, _) in enumerate(recording.threads) if ident == os.getpid()]
    calls = recording.of("call")
    calls = calls[np.isin(calls["thread"], threads) & (calls["eager"] == 0)]
    seconds: dict[str, float] = {}
    for label in np.unique(calls["label"]):
        own = calls[calls["label"] == label]
        seconds[recording.labels[label]] = float((own["end"] - own["begin"]).sum()) * 1e-9
    return seconds


def delivery_gil_seconds(recording: Recording) -> float:
    """Returns how long delivery threads waited for the GIL before their batches."""
    waits = recording.of("wait for GIL")
    waits = waits[waits["label"] == 0]
    return float((waits["end"] - waits["begin"]).sum()) * 1e-9
