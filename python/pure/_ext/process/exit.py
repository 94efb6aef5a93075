# SPDX-License-Identifier: Apache-2.0
"""The end of the process, and which process this is."""

from __future__ import annotations

import threading
import time

from . import in_flight

_process_index = 0


def set_process_index(index: int) -> None:
    """JAX's number of this process."""
    global _process_index
    _process_index = index


def process_index() -> int:
    """JAX's number of this process; 0 if nobody told."""
    return _process_index


def begin_exit() -> None:
    """Nothing is left to switch off: what runs in Python ends with Python."""


def close_interpreter(seconds: float) -> int:
    """Waits for callbacks of other threads that are under way. Number of threads still inside Python."""
    deadline = time.monotonic() + seconds
    while (inside := _others()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return inside


def _others() -> int:
    own = threading.get_ident()
    return sum(ident != own for ident, _ in in_flight.readings())


def trim_memory() -> None:
    """Gives memory back that is kept for reuse: there is none."""


def pooled_bytes() -> int:
    """Memory that is kept for reuse."""
    return 0
