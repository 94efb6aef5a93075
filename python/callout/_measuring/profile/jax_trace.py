# SPDX-License-Identifier: Apache-2.0
"""One time axis with JAX's own profiler, by its public API only.

While it captures, JAX's profiler keeps annotations with their arguments. Marks that carry our clock are found again in what
it writes: `<dir>/plugins/profile/<time>/<host>.trace.json.gz`, which may leave events out, and `<host>.xplane.pb`, which
does not. A capture without a mark (it began and ended within the profile) tells when it began, by the wall clock.
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
    """Leaves our clock in a capture that runs; else it costs a microsecond."""
    for _ in range(_MARKS_AT_ONCE):
        with jax.profiler.TraceAnnotation(_MARK, steady_ns=time.monotonic_ns()):
            pass


def annotation(label: str) -> Any:
    """Returns what a Python function runs in."""
    return jax.profiler.TraceAnnotation(label)


def is_capturing() -> bool:
    """Tells whether JAX's profiler captures now."""
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
        """Returns what to add to nanoseconds since our recording began to have JAX's."""
        # A mark is made after its clock was read, so the smallest distance is the best.
        distances = [begin - steady for begin, steady in self._marks()]
        if distances:
            return begin_steady_ns + min(distances)
        start = self._start_ns()
        if start is None:
            raise ValueError(f"callout.profile: {self.path} has no mark of this profile, and no start time")
        return int(begin_wall_seconds * 1e9) - start

    def free_pid(self) -> int:
        """Returns a process number that JAX does not use."""
        return 1 + max((int(event.get("pid", 0)) for event in self.content["traceEvents"]), default=0)

    def merged(self, events: bytes) -> Iterator[str]:
        """Yields JAX's file with the events of our array added."""
        rest = {key: value for key, value in self.content.items() if key != "traceEvents"}
        yield json.dumps(rest)[:-1] + (", " if rest else "") + '"traceEvents": [\n'
        yield events.decode()
        for event in self.content["traceEvents"]:
            yield ",\n" + json.dumps(event)
        yield "\n]}\n"

    def _marks(self) -> list[tuple[int, int]]:
        """Returns (JAX's nanoseconds, our steady clock) of each."""
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
            warnings.simplefilter("ignore")  # of a type in jaxlib without a __module__
            starts = [dict(plane.stats).get("profile_start_time") for plane in self._planes()]
        return next((int(start) for start in starts if start), None)

    def _planes(self) -> Iterable[Any]:
        paths = sorted(self.path.parent.glob("*.xplane.pb"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [plane for path in paths for plane in jax.profiler.ProfileData.from_file(str(path)).planes]
