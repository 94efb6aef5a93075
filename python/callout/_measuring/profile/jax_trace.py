# SPDX-License-Identifier: Apache-2.0
"""Merges a recording with a capture of JAX's profiler on one time axis, by JAX's public API.

JAX's profiler captures annotations with their arguments. So Callout makes annotations, called marks, that carry its own
clock, and finds them in the capture's files: `<dir>/plugins/profile/<time>/<host>.trace.json.gz`, which may leave
events out, and `<host>.xplane.pb`, which has all. A capture without a mark (it began and ended within the profile) is
placed by its begin on the wall clock.
"""

from __future__ import annotations

import gzip
import json
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax

_MARK = "callout clock"
_MARKS_AT_ONCE = 3


def mark() -> None:
    """Puts a mark with Callout's clock into a running capture. Without a capture this costs a microsecond."""
    for _ in range(_MARKS_AT_ONCE):
        with jax.profiler.TraceAnnotation(_MARK, steady_ns=time.monotonic_ns()):
            pass


def annotation(label: str) -> Any:
    """Returns the annotation that a Python function runs in."""
    return jax.profiler.TraceAnnotation(label)


def is_capturing() -> bool:
    """Returns whether JAX's profiler captures now."""
    return bool(jax.profiler.TraceAnnotation.is_enabled())


class JaxTrace:
    """Reads the newest capture below a folder."""

    def __init__(self, folder: str | Path):
        traces = sorted(Path(folder).rglob("*.trace.json.gz"), key=lambda path: path.stat().st_mtime)
        if not traces:
            raise FileNotFoundError(
                f"callout.profile: no *.trace.json.gz below {str(folder)!r}: JAX writes it when its trace stops"
            )
        self.path = traces[-1]
        with gzip.open(self.path, "rt", encoding="utf-8") as file:
            self.content: dict[str, Any] = json.load(file)
        # JAX ends the list with an empty event.
        self.content["traceEvents"] = [event for event in self.content["traceEvents"] if event]

    def shift_ns(self, begin_steady_ns: int, begin_wall_seconds: float) -> int:
        """Returns the difference between JAX's time axis and nanoseconds since the recording began."""
        # The clock is read before the mark is made, so the smallest distance is the most exact.
        distances = [begin - steady for begin, steady in self._marks()]
        if distances:
            return begin_steady_ns + min(distances)
        start = self._start_ns()
        if start is None:
            raise ValueError(f"callout.profile: {self.path} has no mark of this profile, and no start time")
        return int(begin_wall_seconds * 1e9) - start

    def free_pid(self) -> int:
        """Returns a process number that JAX's trace does not use."""
        return 1 + max((int(event.get("pid", 0)) for event in self.content["traceEvents"]), default=0)

    def merged(self, events: bytes) -> Iterator[str]:
        """Yields the text of JAX's file with `events`, a JSON array, added."""
        rest = {key: value for key, value in self.content.items() if key != "traceEvents"}
        yield json.dumps(rest)[:-1] + (", " if rest else "") + '"traceEvents": [\n'
        yield events.decode()
        for event in self.content["traceEvents"]:
            yield ",\n" + json.dumps(event)
        yield "\n]}\n"

    def _marks(self) -> list[tuple[int, int]]:
        """Returns (JAX's nanoseconds, nanoseconds of the steady clock) of each mark."""
        marks = [
            (round(event["ts"] * 1000), int(event["args"]["steady_ns"]))
            for event in self.content["traceEvents"]
            if event.get("name") == _MARK
        ]
        return marks or [
            (int(event.start_ns), int(dict(event.stats)["steady_ns"]))
            for plane in self._planes()
            for line in plane.lines
            for event in line.events
            if event.name == _MARK
        ]

    def _start_ns(self) -> int | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a type in jaxlib without a __module__
            starts = [dict(plane.stats).get("profile_start_time") for plane in self._planes()]
        return next((int(start) for start in starts if start), None)

    def _planes(self) -> Iterable[Any]:
        paths = sorted(self.path.parent.glob("*.xplane.pb"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [plane for path in paths for plane in jax.profiler.ProfileData.from_file(str(path)).planes]
