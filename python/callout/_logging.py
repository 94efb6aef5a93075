# SPDX-License-Identifier: Apache-2.0
"""The `callout` logger. Its level is also the core's: what it would drop the core does not format."""

from __future__ import annotations

import logging
import sys
import threading
import traceback

from . import _ext


class _CoreLogger(logging.Logger):
    def setLevel(self, level: int | str) -> None:  # noqa: N802 - logging's name
        super().setLevel(level)
        _ext.set_log_level(self.level or logging.WARNING)


logger = logging.getLogger("callout")
if not isinstance(logger, _CoreLogger):
    # The logger may exist already, with handlers: it keeps them and only learns to tell the core its level.
    logger.__class__ = _CoreLogger


def emit(level: int, message: str) -> None:
    """Logs a message of the core. Called by it with the GIL held."""
    logger.log(level, "%s", message.removeprefix("callout: "))


def format_stacks() -> str:
    """What every Python thread is doing. Called by the core for a hang report, on a thread of its own."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = ["Python threads:"]
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            parts.append(f"Thread {names.get(ident, ident)}:")
            parts.append("".join(traceback.format_stack(frame)).rstrip())
    return "\n".join(parts)
