# SPDX-License-Identifier: Apache-2.0
"""The `callout` logger, and those of modules that have their own.

The lowest of their levels is also the core's: what all would drop the core does not format.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback

from .. import _ext


class _CoreLogger(logging.Logger):
    def setLevel(self, level: int | str) -> None:  # noqa: N802 - logging's name
        super().setLevel(level)
        _tell_the_level()


_loggers: list[logging.Logger] = []  # the core knows them by their places


def _tell_the_level() -> None:
    _ext.set_log_level(min((each.level for each in _loggers if each.level), default=logging.WARNING))


def add(name: str) -> tuple[logging.Logger, int]:
    """Returns a logger that messages of the core go to, too, and its number for callbacks (`log_source`)."""
    added = logging.getLogger(name)
    # It may exist already, with handlers: it keeps them and only learns to tell the core its level.
    added.__class__ = _CoreLogger
    _loggers.append(added)
    if added.level:
        _tell_the_level()
    return added, len(_loggers) - 1


logger, _ = add("callout")


def emit(level: int, message: str, source: int) -> None:
    """Logs a message of the core for the logger of number `source`. Called by it with the GIL held."""
    _loggers[source].log(level, "%s", message.removeprefix("callout: "))


_NAMED = threading.local()


def name_thread(name: str | None) -> object:
    """Calls this thread of the core's by its name, for log records and debuggers; None: it ends. Called by it.

    Returns what the thread keeps until it ends. Since Python 3.13 a thread that Python did not start and that has asked
    for the current one, as this does, has an object whose destructor takes Python's lock of threads. A forked child
    destroys what only the parent's threads had before it makes that lock anew, and would wait for ever for who held it.
    """
    thread = threading.current_thread()
    if name is not None:
        _NAMED.before, thread.name = thread.name, name
        _trace_as_new_threads()
    else:  # before Python 3.13 the object outlives the thread, and stands for a later one of the same number
        thread.name = _NAMED.before
    return getattr(getattr(threading, "_thread_local_info", None), "_track_dummy_thread_ref", None)


def _trace_as_new_threads() -> None:
    """Has this thread traced and profiled as `threading` has it for those that it starts: for debuggers and coverage."""
    if (profile := threading.getprofile()) is not None:
        sys.setprofile(profile)
    if (trace := threading.gettrace()) is not None:
        sys.settrace(trace)


def format_stacks() -> str:
    """Returns what every Python thread is doing. Called by the core for a hang report, on a thread of its own."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = ["Python threads:"]
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            parts.append(f"Thread {names.get(ident, ident)}:")
            parts.append("".join(traceback.format_stack(frame)).rstrip())
    return "\n".join(parts)
