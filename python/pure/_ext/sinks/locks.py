# SPDX-License-Identifier: Apache-2.0
"""Files have one writer: another sink of this process is refused everywhere, another process where there is flock."""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

from .. import log
from ..failures import ALREADY_EXISTS, Failure
from ..process.forks import fork_lock

_lock = fork_lock()
_written: set[tuple[int, int]] = set()


def _flock() -> Any:
    try:
        return importlib.import_module("fcntl")
    except ImportError:  # Windows
        return None


def key_of(status: os.stat_result) -> tuple[int, int]:
    """Which file it is."""
    return (status.st_dev, status.st_ino)


def is_written_here(path: str) -> bool:
    """Whether a sink of this process writes a file."""
    try:
        return key_of(os.stat(path)) in _written  # noqa: PTH116 - one call
    except OSError:
        return False


def take(file: int, cannot: str) -> None:
    """Failure if somebody else writes it."""
    key = key_of(os.fstat(file))
    with _lock:
        is_taken = key in _written
        _written.add(key)
    if is_taken:
        raise Failure(ALREADY_EXISTS, f"{cannot}: another sink of this process is writing it; close that one first")
    fcntl = _flock()
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        give_back(key)
        raise Failure(ALREADY_EXISTS, f"{cannot}: another process is writing it") from None
    except OSError as error:
        text = f"{cannot} for this process alone: the file system has no locks ({error.strerror})"
        log.log(logging.WARNING, text)


def give_back(key: tuple[int, int]) -> None:
    """The file is closed, which ends the lock."""
    with _lock:
        _written.discard(key)
