# SPDX-License-Identifier: Apache-2.0
"""Profiles: refused by name."""

from __future__ import annotations

from typing import NoReturn

from .refusal import refuse

_INSTEAD = "callout.stats() counts calls, bytes and time, and jax.profiler.trace records the program"


class Recording:
    """A profile's events, which are over."""

    def __init__(self) -> None:
        refuse("a profile was asked for", _INSTEAD)

    @property
    def events(self) -> bytes:
        """ProfileEvent, one after the other."""
        return b""

    @property
    def row_of(self) -> bytes:
        """Each event's row."""
        return b""

    @property
    def rows(self) -> list[tuple[int, int, int, int, str]]:
        """(group, device, thread, number, name) of each row."""
        return []

    @property
    def threads(self) -> list[tuple[int, str, bool]]:
        """(kernel's id, name, whether it delivers) of each thread."""
        return []

    @property
    def labels(self) -> list[str]:
        """Those of callbacks."""
        return []

    @property
    def left_out(self) -> int:
        """Events for which there was no room."""
        return 0

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return 0

    @property
    def begin_steady_ns(self) -> int:
        """When it began."""
        return 0

    @property
    def begin_wall_seconds(self) -> float:
        """When it began."""
        return 0.0

    def trace(self, process: int, shift_ns: int, whole_file: bool) -> NoReturn:
        """Refused."""
        del process, shift_ns, whole_file
        refuse("a profile was asked for", _INSTEAD)


def start_recording(max_events: int) -> NoReturn:
    """Refused."""
    del max_events
    refuse("callout.profile() records what the core does", _INSTEAD)


def stop_recording() -> NoReturn:
    """Refused."""
    refuse("no profile is being recorded", _INSTEAD)


def is_recording() -> bool:
    """Never."""
    return False


def set_annotation(factory: object | None, is_enabled: object | None) -> None:
    """What annotates Python functions while one records: never."""
    del factory, is_enabled
