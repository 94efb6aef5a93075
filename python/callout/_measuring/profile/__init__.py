# SPDX-License-Identifier: Apache-2.0
"""`callout.profile` records when callbacks ran, and for how long."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeAlias

import jax
import numpy as np

from ... import _ext, _jax_compat
from ..._base import lifetime, programs
from .. import report
from ..stats import Stats, stats
from . import jax_trace
from .callback_times import CallbackTimes, delivery_gil_seconds, main_thread_seconds, summarize
from .recording import Recording, Row

PathLike: TypeAlias = str | Path


class profile:  # noqa: N801 - users call it like a function
    """Records every call, tap and delivery of the process while a `with` block runs.

    An event costs 40 to 80 ns and 64 bytes; without a running profile, the costs are zero. A process has one profile at
    a time.

    Args:
        path: write the timeline to this file when the block ends, like `profile.save(path)`.
        jax: capture with JAX's own profiler into this folder, too, and write both to `path`.
        annotate: run Python callbacks inside a `jax.profiler.TraceAnnotation` with their label: None while JAX's
            profiler captures, True always, False never.
        wait: wait for programs and for the delivery of their taps at the begin and at the end of the block, like
            `barrier_wait()`, but without raising the errors of taps. With False, the profile contains records that were
            queued before it began, and misses records that are still queued at its end.
        max_events: the number of events to keep; `profile.left_out` counts later ones.

    Raises:
        RuntimeError: (when the block begins) another profile is being recorded.
        OSError: (when the block begins) `path` cannot be written.
        ForkError: the process is a forked child.
        ValueError: `max_events` is no integer of at least 1.

    Example:
        >>> halve = jax.jit(lambda x: callout.pure_callback(lambda v: v / 2, x, x))
        >>> with callout.profile("trace.json.gz") as profile:
        ...     y = halve(jnp.float32(3)).block_until_ready()
        >>> "call" in profile.events["kind"]
        True
    """

    def __init__(
        self,
        path: PathLike | None = None,
        *,
        jax: PathLike | None = None,
        annotate: bool | None = None,
        wait: bool = True,
        max_events: int = 1_000_000,
    ):
        if isinstance(max_events, bool) or not hasattr(max_events, "__index__") or max_events < 1:
            raise ValueError(f"callout.profile: max_events must be an integer of at least 1, got {max_events!r}")
        self._path = path
        self._jax_dir = None if jax is None else Path(jax).expanduser()
        self._annotate = annotate
        self._wait = wait
        self._limit = max_events
        self._recording: Recording | None = None
        self._summary: CallbackTimes | None = None
        self._before = Stats()
        self._after = Stats()

    def __repr__(self) -> str:
        shown = [] if self._path is None else [repr(str(self._path))]
        shown += [] if self._jax_dir is None else [f"jax={str(self._jax_dir)!r}"]
        events = "" if self._recording is None else f", {len(self._recording.raw)} events"
        return f"<profile({', '.join(shown)}){events}>"

    def __enter__(self) -> Self:
        lifetime.check_usable()
        if self._recording is not None:
            raise RuntimeError("callout.profile: this profile is over; make another one")
        if self._path is not None:
            _writable(self._path).open("ab").close()  # raises now, not after hours of work
        if self._wait and not _inside_callback():
            _drain()
        if self._jax_dir is not None:
            jax.profiler.start_trace(str(self._jax_dir))
        try:
            self._before = stats()
            _ext.start_recording(self._limit)
        except BaseException:
            self._stop_jax()
            raise
        try:
            if self._annotate is not False:
                _ext.set_annotation(jax_trace.annotation, None if self._annotate else jax_trace.is_capturing)
            jax_trace.mark()
        except BaseException:
            _ext.set_annotation(None, None)
            _ext.stop_recording()
            self._stop_jax()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._wait and error is None and not _inside_callback():
                _drain()
        finally:
            jax_trace.mark()
            _ext.set_annotation(None, None)
            self._recording = Recording(_ext.stop_recording())
            self._after = stats()
            self._stop_jax()
        if self._path is not None:
            try:
                self.save(self._path)
            except OSError as failure:
                if error is None:
                    raise
                with contextlib.suppress(Exception):  # the error's class may reject notes
                    error.add_note(f"callout.profile: the timeline was not written: {failure}")

    @property
    def recording(self) -> Recording:
        """Returns the raw events, from which all other results are computed."""
        if self._recording is None:
            raise RuntimeError("callout.profile: it has nothing before the end of its `with` block")
        return self._recording

    @property
    def events(self) -> np.ndarray:
        """Returns a structured array with one element for each event, sorted by begin.

        `kind` ("call", "tap", "drop", "wait for room", "wait for taps", "delivery", "flush", "wait for GIL", "copy",
        "function", "queue"), `label`, `row`, `worker`, `device`, `begin_ns` and `end_ns` since the profile began,
        `queued_ns` (when a tap's record was copied), `bytes`, `level` (bytes in the queue), `failed`.
        """
        return self.recording.readable

    @property
    def rows(self) -> list[Row]:
        """Returns the rows of the timeline, from the top."""
        return self.recording.rows

    @property
    def left_out(self) -> int:
        """Returns the number of events beyond `max_events`."""
        return int(self.recording.core.left_out)

    @property
    def seconds(self) -> float:
        """Returns the duration of the recording."""
        return float(self.recording.core.duration_ns) * 1e-9

    def summary(self) -> CallbackTimes:
        """Returns for each callback: counts, bytes, and seconds (`total`, `p50`, `p95`, `max`) by activity.

        `host` is the time inside calls and deliveries. `queue_wait` is the time from a tap in the program to the
        delivery of its record. `device_wait` is the time for which calls and taps held the program's thread: calls for
        their whole duration, taps for the copy and for the wait until the queue had room. `room_wait_seconds`,
        `gil_wait_seconds`, `copy_seconds`, `function_seconds` and `flush_seconds` are parts of these times.
        """
        if self._summary is None:
            self._summary = summarize(self.recording)
            for label, row in self._summary.items():
                row["skips"] = self._counted(label, "skips")
        return self._summary

    def report(self) -> report.Report:
        """Returns a report on the time of callbacks, with suggested changes."""
        queues = report.queues_between(self._before["queues"], self._after["queues"])
        facts = report.facts_of_summary(
            self.summary(),
            queues,
            self.seconds,
            main_thread_seconds(self.recording),
            len(_jax_compat.devices_in_use()),
            delivery_gil_seconds(self.recording),
        )
        return report.make_report(facts, left_out=self.left_out)

    def save(self, path: PathLike, jax: PathLike | None = None) -> None:
        """Writes the timeline in the Trace Event Format, for https://ui.perfetto.dev or chrome://tracing.

        Args:
            path: the file, which is compressed if its name ends with ".gz".
            jax: the folder of a simultaneous capture of JAX's profiler: the file then has both, on JAX's time axis. By
                default the capture of `callout.profile(jax=)`.

        Raises:
            FileNotFoundError: the folder has no trace of JAX's.
        """
        folder = self._jax_dir if jax is None else jax
        core = self.recording.core
        with _opened(path) as file:
            if folder is None:
                file.write(core.trace(1, 0, True))
                return
            trace = jax_trace.JaxTrace(folder)
            shift = trace.shift_ns(core.begin_steady_ns, core.begin_wall_seconds)
            for text in trace.merged(core.trace(trace.free_pid(), shift, False)):
                file.write(text.encode())

    def _stop_jax(self) -> None:
        if self._jax_dir is not None:
            jax.profiler.stop_trace()

    def _counted(self, label: str, counter: str) -> int:
        before = self._before["callbacks"].get(label, {}).get(counter, 0)
        return max(0, int(self._after["callbacks"].get(label, {}).get(counter, 0)) - int(before))


def _writable(path: PathLike) -> Path:
    """Returns the path with the user's home for "~", and creates missing folders."""
    path = Path(path).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _opened(path: PathLike) -> IO[bytes]:
    path = _writable(path)
    if path.suffix != ".gz":
        return path.open("wb")
    compressed: Any = gzip.open(path, "wb", compresslevel=6)  # noqa: SIM115
    opened: IO[bytes] = compressed
    return opened


def _drain() -> None:
    programs.prepare()
    programs.wait_for_programs(None)
    _ext.drain(-1.0)


def _inside_callback() -> bool:
    """Returns whether the caller is inside a callback, where waiting would never end."""
    return bool(_ext.inside_call() or _ext.on_delivery_thread() or _jax_compat.inside_jax_callback())
