# SPDX-License-Identifier: Apache-2.0
"""Sinks that write files, and closing them."""

from __future__ import annotations

import logging
import os
import weakref

from .. import log
from ..delivery.record import Record
from ..failures import INVALID_ARGUMENT, Failure, as_error
from .file_output import FileOutput
from .sink import Sink

_by_path: dict[str, list[weakref.ref[FileSink]]] = {}


class FileSink(Sink):
    """Lines of a file."""

    def __init__(self, label: str, file: FileOutput):
        super().__init__(label)
        self.file = file
        self._last_time = 0.0

    def __del__(self) -> None:
        try:
            self.file.close()
        except Failure as failure:
            log.log(logging.ERROR, failure.text)
        except AttributeError:  # it was never opened
            pass
        super().__del__()

    def line(self, record: Record) -> str:
        """A record's, with its end."""
        raise NotImplementedError

    def deliver(self, record: Record) -> None:
        """Takes a record, to be written at the end of the batch."""
        self.file.add(self.line(record))

    def flush(self) -> None:
        """Writes."""
        self.file.flush()

    def time_text(self, record: Record) -> str:
        """Seconds since 1970. A clock that was set does not turn the order around."""
        self._last_time = max(self._last_time, record.time)
        return f"{self._last_time:.6f}"


def remember(path: str, sink: FileSink) -> None:
    """Tells `close_files_at` of the sink."""
    known = _by_path.setdefault(os.path.realpath(path), [])
    known[:] = [one for one in known if one() is not None]
    known.append(weakref.ref(sink))


def close_file(sink: object) -> None:
    """Writes what it has got and lets go of the file."""
    if not isinstance(sink, FileSink):
        label = getattr(sink, "label", "")
        raise as_error(INVALID_ARGUMENT, f"callout: '{label}' writes no file")
    try:
        sink.file.close()
    except Failure as failure:
        raise as_error(INVALID_ARGUMENT, failure.text) from None


def close_files_at(path: str) -> int:
    """Closes all sinks that write the path, as `close_file` does, and tells how many."""
    found = [sink for one in _by_path.pop(os.path.realpath(path), []) if (sink := one()) is not None]
    for sink in found:
        close_file(sink)
    return len(found)
