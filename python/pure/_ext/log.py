# SPDX-License-Identifier: Apache-2.0
"""Messages, for the loggers of callout._base.loggers."""

from __future__ import annotations

import contextlib
import logging
import sys

CORE = 0  # the number of the logger "callout"

_level = logging.WARNING


def set_log_level(level: int) -> None:
    """What is below it is not formatted."""
    global _level
    _level = level


def is_enabled(level: int) -> bool:
    """Whether any logger takes messages of this level."""
    return level >= _level


def log(level: int, text: str, source: int = CORE) -> None:
    """Logs for the logger of this number. What a handler of the user's raises ends no thread: the text goes to stderr."""
    if is_enabled(level):
        from callout._base import loggers

        try:
            loggers.emit(level, text, source)
        except Exception:  # noqa: BLE001 - whatever handlers and filters raise
            with contextlib.suppress(Exception):
                text = text.removeprefix("callout: ")  # texts of errors begin with it, too
                print(f"callout: {logging.getLevelName(level)}: {text}", file=sys.stderr)  # noqa: T201
