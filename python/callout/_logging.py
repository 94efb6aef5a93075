# SPDX-License-Identifier: Apache-2.0
"""The `callout` logger and that of `callout.host_callback`.

The lower of their levels is also the core's: what both would drop the core does not format.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback

from . import _ext


class _CoreLogger(logging.Logger):
    def setLevel(self, level: int | str) -> None:  # noqa: N802 - logging's name
        super().setLevel(level)
        levels = [each.level for each in (logger, host_callback_logger) if each.level]
        _ext.set_log_level(min(levels, default=logging.WARNING))


logger = logging.getLogger("callout")
host_callback_logger = logging.getLogger("callout.host_callback")
for _logger in (logger, host_callback_logger):
    if not isinstance(_logger, _CoreLogger):
        # The logger may exist already, with handlers: it keeps them and only learns to tell the core its level.
        _logger.__class__ = _CoreLogger


def emit(level: int, message: str, source: int) -> None:
    """Logs a message of the core; `source`: 0, or 1 for host_callback's. Called by it with the GIL held."""
    (host_callback_logger if source else logger).log(level, "%s", message.removeprefix("callout: "))


_NAMED = threading.local()


def name_thread(name: str | None) -> None:
    """Calls this thread of the core's by its name, for log records and debuggers; None: it ends. Called by it."""
    thread = threading.current_thread()
    if name is not None:
        _NAMED.before, thread.name = thread.name, name
    else:  # before Python 3.13 the object outlives the thread, and stands for a later one of the same number
        thread.name = _NAMED.before


def format_stacks() -> str:
    """What every Python thread is doing. Called by the core for a hang report, on a thread of its own."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = ["Python threads:"]
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            parts.append(f"Thread {names.get(ident, ident)}:")
            parts.append("".join(traceback.format_stack(frame)).rstrip())
    return "\n".join(parts)
