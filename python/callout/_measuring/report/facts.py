# SPDX-License-Identifier: Apache-2.0
"""The numbers behind a report, from the counters alone or from a profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class CallbackFacts:
    """The numbers of one callback, in seconds. Numbers that only a profile has are None in a report on the counters."""

    label: str
    count: int  # of calls and records
    bytes: int
    host: float
    drops: int = 0
    skips: int = 0
    errors: int = 0
    worker: str | None = None
    calls: int | None = None
    records: int | None = None
    host_p95: float | None = None
    queue_wait_p95: float | None = None
    device_wait: float | None = None
    room_wait: float | None = None
    gil_wait: float | None = None
    copy: float | None = None
    function: float | None = None
    main_thread: float | None = None  # spent by the main thread in calls of compiled programs

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.count if self.count else 0.0

    @property
    def mean_host(self) -> float:
        return self.host / self.count if self.count else 0.0


@dataclasses.dataclass(frozen=True)
class QueueFacts:
    """The numbers of one queue."""

    worker: str
    device: int
    blocked: int
    high_water_bytes: int
    capacity_bytes: int

    @property
    def name(self) -> str:
        return f"the {self.worker} queue of device {self.device}"


@dataclasses.dataclass(frozen=True)
class Facts:
    """All numbers that rules use."""

    callbacks: tuple[CallbackFacts, ...]  # by falling host time
    queues: tuple[QueueFacts, ...]
    devices: int
    seconds: float | None = None  # duration of the profile
    delivery_gil: float | None = None  # time that delivery threads waited for the GIL

    @property
    def host(self) -> float:
        return sum(each.host for each in self.callbacks)


def queue_facts(queues: Iterable[Mapping[str, Any]]) -> tuple[QueueFacts, ...]:
    """Reads the facts of `stats()["queues"]`."""
    names = [field.name for field in dataclasses.fields(QueueFacts)]
    return tuple(QueueFacts(**{name: queue[name] for name in names}) for queue in queues)


def queues_between(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> tuple[QueueFacts, ...]:
    """Returns the facts of the queues between two values of `stats()["queues"]`."""
    old = {(queue["worker"], queue["device"]): queue for queue in before}
    changed = []
    for queue in after:
        earlier = old.get((queue["worker"], queue["device"]), {"blocked": 0, "high_water_bytes": 0})
        # A high water mark counts only if it rose in between.
        high = queue["high_water_bytes"] if queue["high_water_bytes"] > earlier["high_water_bytes"] else 0
        changed.append({**queue, "blocked": queue["blocked"] - earlier["blocked"], "high_water_bytes": high})
    return queue_facts(changed)


def facts_of_stats(stats: Mapping[str, Any], devices: int) -> Facts:
    """Reads the facts of the counters, since the process began."""
    callbacks = [
        CallbackFacts(
            label=label,
            count=one["calls"],
            bytes=one["bytes"],
            host=one["host_seconds"],
            drops=one["drops"],
            skips=one["skips"],
            errors=one["errors"],
        )
        for label, one in stats["callbacks"].items()
    ]
    used = [each for each in callbacks if each.count or each.drops]
    return Facts(tuple(sorted(used, key=lambda each: -each.host)), queue_facts(stats["queues"]), devices)


def facts_of_summary(
    summary: Mapping[str, Mapping[str, Any]],
    queues: tuple[QueueFacts, ...],
    seconds: float,
    main_thread: Mapping[str, float],
    devices: int,
    delivery_gil: float,
) -> Facts:
    """Reads the facts of a profile."""
    callbacks = tuple(
        CallbackFacts(
            label=label,
            count=one["calls"] + one["records"],
            bytes=one["bytes"],
            host=one["host"]["total"],
            drops=one["drops"],
            skips=one["skips"],
            errors=one["errors"],
            worker=one["worker"],
            calls=one["calls"],
            records=one["records"],
            host_p95=one["host"]["p95"],
            queue_wait_p95=one["queue_wait"]["p95"],
            device_wait=one["device_wait"]["total"],
            room_wait=one["room_wait_seconds"],
            gil_wait=one["gil_wait_seconds"],
            copy=one["copy_seconds"],
            function=one["function_seconds"],
            main_thread=main_thread.get(label, 0.0),
        )
        for label, one in summary.items()
    )
    return Facts(callbacks, queues, devices, seconds, delivery_gil)
