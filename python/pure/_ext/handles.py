# SPDX-License-Identifier: Apache-2.0
"""Host objects, and the handles by which programs refer to them."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .process import as_error, refuse

_PROCESS = [secrets.randbits(32) | 1, secrets.randbits(32)]
_CLASSES = {"sink": "sink of callout.sinks", "Function": "callout.sinks.Function"}
_indices = itertools.count(1)
_objects: dict[tuple[int, ...], tuple[str, Any]] = {}  # (kind, object) by handle
_retired: list[tuple[int, ...]] = []
_freed = 0
_lock = threading.Lock()


class _Owner:
    """Owns an object, whose handle is `words`."""

    kind: str

    def __init__(self, owned: Any):
        self.words = [next(_indices), 1, *_PROCESS]
        self.owned = owned
        _objects[tuple(self.words)] = (self.kind, owned)

    def __del__(self) -> None:
        _retired.append(tuple(self.words))


class _Flag:
    def __init__(self, seconds: float):
        self.seconds = seconds
        self.clear()

    def clear(self) -> None:
        self.value = False
        self.deadline = time.monotonic() + self.seconds if self.seconds >= 0 else float("inf")


class StopFlagOwner(_Owner):
    """Owns a flag that programs read."""

    kind = "StopFlag"

    def __init__(self, seconds: float):
        super().__init__(_Flag(seconds))

    def start_timer(self) -> None:
        flag = self.owned
        flag.deadline = time.monotonic() + flag.seconds if flag.seconds >= 0 else float("inf")


class HostValueOwner(_Owner):
    """Owns arrays that programs read, in a list of one item, which is replaced as a whole."""

    kind = "HostValue"

    def __init__(self, arrays: Sequence[np.ndarray]):
        super().__init__([[np.array(array) for array in arrays]])


class SinkOwner(_Owner):
    """Owns a sink that programs send to."""

    kind = "sink"


class FunctionOwner(_Owner):
    """Owns a function that programs send to."""

    kind = "Function"


class CaughtSignals:
    """Raises an error: a Python signal handler only runs when the main thread has returned from the program."""

    def __init__(self, *_: Any):
        refuse("callout.StopFlag(signals=...)")


def object_of(words: Sequence[int], kind: str) -> Any:
    """Returns the object of a handle. Raises FailedPrecondition if there is none."""
    key = tuple(map(int, words))
    known, owned = _objects.get(key, ("", None))
    if known == kind:
        return owned
    name = _CLASSES.get(kind, f"callout.{kind}")
    if known:
        why = "its leaf is the handle of an object of another kind"
    elif list(key[2:]) != _PROCESS:
        why = (
            "its leaf is no handle of this process: it comes from another process, as in a checkpoint, or is zeros or other "
            f"numbers. Make a new {name}, and put it into the pytree in place of this one"
        )
    else:
        why = (
            "the object of this handle is gone, because nothing in Python refers to it any more: keep the "
            f"{name} that was made for as long as programs use it"
        )
    raise as_error(f"callout: {kind}: {why}", "callback")


def stop_flag_is_set(words: Sequence[int]) -> bool:
    flag = object_of(words, "StopFlag")
    return bool(flag.value or time.monotonic() >= flag.deadline)


def set_stop_flag(words: Sequence[int], value: bool) -> None:
    flag = object_of(words, "StopFlag")
    if value:
        flag.value = True
    else:
        flag.clear()


def get_host_value(words: Sequence[int]) -> list[np.ndarray]:
    (arrays,) = object_of(words, "HostValue")
    return [array.copy() for array in arrays]


def set_host_value(words: Sequence[int], arrays: Sequence[np.ndarray]) -> None:
    object_of(words, "HostValue")[:] = [[np.array(array) for array in arrays]]


def retired_handles() -> tuple[int, int]:
    """Returns how many objects were ever retired, and how many of these still exist."""
    with _lock:
        return _freed + len(_retired), len(_retired)


def free_handles(count: int) -> None:
    """Drops the first `count` objects that were ever retired."""
    global _freed
    dropped = []  # dropped after the lock is released, because an object's destructor may retire others
    with _lock:
        while _retired and _freed < count:
            dropped.append(_objects.pop(_retired.pop(0)))
            _freed += 1


def live_host_objects() -> int:
    return len(_objects)
