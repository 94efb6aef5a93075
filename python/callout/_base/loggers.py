# SPDX-License-Identifier: Apache-2.0
"""The `callout` logger, and the loggers of modules that have their own.

The core's log level is the lowest of theirs, so that it does not format messages that all would drop.
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


_loggers: list[logging.Logger] = []  # the core refers to them by index


def _tell_the_level() -> None:
    _ext.set_log_level(min((each.level for each in _loggers if each.level), default=logging.WARNING))


def add(name: str) -> tuple[logging.Logger, int]:
    """Adds a logger for messages of the core, and returns it with its number for callbacks (`log_source`)."""
    added = logging.getLogger(name)
    # An existing logger keeps its handlers; the new class only forwards its level to the core.
    added.__class__ = _CoreLogger
    _loggers.append(added)
    if added.level:
        _tell_the_level()
    return added, len(_loggers) - 1


logger, _ = add("callout")


def emit(level: int, message: str, source: int) -> None:
    """Logs a message of the core by the logger with number `source`. The core calls this. Requires GIL."""
    _loggers[source].log(level, "%s", message.removeprefix("callout: "))


_NAMED = threading.local()


def name_thread(name: str | None) -> object:
    """Names the calling thread of the core for log records and debuggers; None: the thread ends. The core calls this.

    Returns an object that the thread keeps until it ends. Since Python 3.13, a thread that Python did not start has a
    thread object after a call of `threading.current_thread()`, as here, and its destructor takes the lock of
    `threading`. A forked child destroys the objects of the parent's threads before it renews this lock, and would wait
    for ever if a thread of the parent held it.
    """
    thread = threading.current_thread()
    if name is not None:
        _NAMED.before, thread.name = thread.name, name
        _trace_as_new_threads()
    else:  # before Python 3.13 the object outlives the thread, and a later thread with the same number inherits it
        thread.name = _NAMED.before
    return getattr(getattr(threading, "_thread_local_info", None), "_track_dummy_thread_ref", None)


def _trace_as_new_threads() -> None:
    """Sets `threading`'s trace and profile functions in this thread, for debuggers and coverage."""
    if (profile := threading.getprofile()) is not None:
        sys.setprofile(profile)
    if (trace := threading.gettrace()) is not None:
        sys.settrace(trace)


def format_stacks() -> str:
    """Returns the stacks of all Python threads. The core calls this for a hang report, on a thread of its own."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = ["Python threads:"]
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            parts.append(f"Thread {names.get(ident, ident)}:")
            parts.append("".join(traceback.format_stack(frame)).rstrip())
    return "\n".join(parts)
