# SPDX-License-Identifier: Apache-2.0
"""The events of a recording as NumPy arrays."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ... import _ext

# The layout of ProfileEvent in src/core/profile/event.h.
_EVENT = np.dtype(
    [
        *((name, np.int64) for name in ("begin", "end", "queued")),
        *((name, np.uint64) for name in ("flow", "bytes", "level")),
        ("label", np.uint32),
        ("device", np.int32),
        ("thread", np.uint32),
        *((name, np.uint8) for name in ("kind", "worker", "failed", "eager")),
    ]
)
# The values of ProfileKind in src/core/profile/event.h, by the names of the trace's categories.
KINDS = (
    *("call", "tap", "drop", "wait for room", "wait for taps", "delivery", "flush", "wait for GIL"),
    *("copy", "function", "queue", "phase"),
)
KIND = {name: number for number, name in enumerate(KINDS)}
WORKERS = ("python", "native")
_NO_ROW = np.uint32(0xFFFFFFFF)

# The type of a profile's `events`.
_READABLE = np.dtype(
    [
        *((name, object) for name in ("kind", "label", "row", "worker")),
        ("device", np.int32),
        *((name, np.int64) for name in ("begin_ns", "end_ns", "queued_ns", "bytes", "level")),
        ("failed", np.bool_),
    ]
)


class Row(NamedTuple):
    """A row of the timeline."""

    group: str  # "phases", "device", "delivery" or "functions"
    device: int
    thread: int
    number: int  # among the rows of one group, device and thread
    name: str


class Recording:
    """Wraps the result of `_ext.stop_recording()`, with names for the numbers of kinds."""

    def __init__(self, recording: _ext.Recording):
        self.core = recording
        self.raw: np.ndarray = np.frombuffer(recording.events, _EVENT)
        self.row_of: np.ndarray = np.frombuffer(recording.row_of, np.uint32)
        self.labels: list[str] = recording.labels
        self.rows = [Row(*row) for row in recording.rows]
        self.threads: list[tuple[int, str, bool]] = recording.threads

    def of(self, kind: str) -> np.ndarray:
        """Returns the raw events of one kind."""
        return np.asarray(self.raw[self.raw["kind"] == KIND[kind]])

    @functools.cached_property
    def readable(self) -> np.ndarray:
        """Returns a structured array with texts instead of the numbers of the raw events."""
        raw = self.raw
        out: Any = np.empty(len(raw), _READABLE)
        row_names = np.array([row.name for row in self.rows] + [""], object)
        out["kind"] = np.array(KINDS, object)[raw["kind"]]
        out["label"] = np.array(self.labels, object)[raw["label"]]
        out["row"] = row_names[np.where(self.row_of == _NO_ROW, len(self.rows), self.row_of)]
        out["worker"] = np.array(WORKERS, object)[raw["worker"]]
        for name, source in (("begin_ns", "begin"), ("end_ns", "end"), ("queued_ns", "queued")):
            out[name] = raw[source]
        for name in ("device", "bytes", "level", "failed"):
            out[name] = raw[name]
        return np.asarray(out)
