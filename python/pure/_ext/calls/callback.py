# SPDX-License-Identifier: Apache-2.0
"""What a program calls: a Python function, a sink, or what looks at values, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import live, log
from ..failures import FAILED_PRECONDITION, Failure, fail
from ..process.forks import note_process_is_used
from ..process.threads import keep_spare
from ..text.utf8 import escaped
from .counters import counters_for

if TYPE_CHECKING:
    from ..delivery.record import Record

Specs = Sequence[tuple[Sequence[int], Any]]

# What an inspector wants to be delivered.
NOTHING, NOTICE, RECORD = range(3)


class Callback:
    """A callback, kept alive by this object."""

    worker = "python"
    inspects = False  # whether `inspect` looks at records before they are sent
    log_source = log.CORE
    refusal = ""  # of calls for a result
    _live = live.callbacks  # at exit the module has no names any more

    def __init__(self, label: str):
        note_process_is_used()
        keep_spare()
        self._label = escaped(label)
        self._id = live.new_id()
        live.callbacks[self._id] = self._label
        self.counters = counters_for(self._label, self)

    def __del__(self) -> None:
        self._live.pop(getattr(self, "_id", 0), None)

    @property
    def label(self) -> str:
        """What people read."""
        return self._label

    @property
    def id(self) -> int:
        """A number that no other callback ever has."""
        return self._id

    @property
    def is_native(self) -> bool:
        """Whether Python functions do not wait for it, nor it for them: it has another queue."""
        return self.worker == "native"

    @property
    def takes_buffers(self) -> bool:
        """Whether it works on XLA's own memory, which nothing here does."""
        return False

    def call(self, arrays: Sequence[np.ndarray], specs: Specs, ordinal: int) -> list[np.ndarray]:
        """The results of these shapes and dtypes."""
        del arrays, specs, ordinal
        fail(FAILED_PRECONDITION, self.refusal or f"'{self.label}' takes taps; it cannot be called for a result")

    def check_tap(self, num_leaves: int) -> None:
        """Failure if it takes no taps of so many arrays."""
        del num_leaves

    def deliver(self, record: Record) -> None:
        """Takes a tap's record, on the worker's thread."""
        raise NotImplementedError

    def flush(self) -> None:
        """When a batch is over, before a barrier takes its records for delivered."""

    def inspect(self, record: Record) -> int:
        """Looks at a record before it is sent: what is to be delivered."""
        del record
        return RECORD

    def add_tap_error(self, ordinal: int, failure: Failure) -> None:
        """Lets the next barrier raise a failure of a call."""
        del ordinal, failure
