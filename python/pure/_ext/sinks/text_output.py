# SPDX-License-Identifier: Apache-2.0
"""Lines on their way to a file descriptor; on a terminal a line may be written over."""

from __future__ import annotations

import atexit
import logging
import os
import re
import threading
import weakref

from .. import log
from ..failures import INTERNAL, Failure
from ..process.forks import fork_lock, is_forked_child

_STDOUT = 1
_WRITE_AT = 256 << 10  # a batch larger than this is written in parts
_lock = fork_lock()
_outputs: weakref.WeakValueDictionary[int, TextOutput] = weakref.WeakValueDictionary()


def is_capable_terminal(fd: int) -> bool:
    """Whether it takes escape sequences."""
    return os.isatty(fd) and os.environ.get("TERM", "") not in ("", "dumb")


class TextOutput:
    """The output to one descriptor, shared by all sinks that write to it."""

    def __init__(self, fd: int):
        self.fd = fd
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._bytes = 0
        self._replacing: str | None = None
        self._is_line_open = False

    def add(self, line: str) -> None:
        """A whole line, without its end."""
        with self._lock:
            self._end_replaced()
            self._append(line + "\n")
            if self._bytes >= _WRITE_AT:
                self._write()

    def replace(self, line: str) -> None:
        """Writes the line in the place of the one before."""
        with self._lock:
            self._replacing = line

    def flush(self) -> None:
        """Writes."""
        with self._lock:
            self._show_replaced()
            self._write()

    def end(self) -> None:
        """Leaves the prompt on a line of its own."""
        if is_forked_child() or not self._lock.acquire(blocking=False):
            return
        try:
            self._end_replaced()
            self._write()
        finally:
            self._lock.release()

    def __del__(self) -> None:
        try:
            self.end()
        except Failure as failure:
            log.log(logging.ERROR, failure.text)

    def _append(self, text: str) -> None:
        self._lines.append(text)
        self._bytes += len(text)

    def _show_replaced(self) -> None:
        if self._replacing is None:
            return
        try:
            columns = os.get_terminal_size(self.fd).columns
        except OSError:
            columns = 0
        self._append(f"\r{_fit(self._replacing, max(columns - 1, 0))}\x1b[K")
        self._replacing = None
        self._is_line_open = True

    def _end_replaced(self) -> None:
        self._show_replaced()
        if self._is_line_open:
            self._is_line_open = False
            self._append("\n")

    def _write(self) -> None:
        rest = "".join(self._lines).encode("utf-8", "replace")
        self._lines.clear()
        self._bytes = 0
        what = "standard output" if self.fd == _STDOUT else f"file descriptor {self.fd}"
        while rest:
            try:
                rest = rest[os.write(self.fd, rest) :]
            except OSError as error:
                raise Failure(INTERNAL, f"cannot write to {what}: {error.strerror}") from None


def _fit(text: str, columns: int) -> str:
    """So much of a line as fits; 0: all. Escape sequences take no room."""
    out, column, is_coloured = "", 0, False
    for part in re.findall(r"\x1b[^m]*m?|.", text, re.DOTALL):
        if part.startswith("\x1b"):
            is_coloured = part != "\x1b[0m"
            out += part
            continue
        if columns and column == columns:
            break
        out += max(part, " ")
        column += 1
    return out + ("\x1b[0m" if is_coloured else "")


@atexit.register
def _end_all() -> None:
    for output in list(_outputs.values()):
        try:
            output.end()
        except Failure:
            continue


def output_of(fd: int) -> TextOutput:
    """That of a descriptor; below 0: standard output."""
    fd = _STDOUT if fd < 0 else fd
    with _lock:
        output = _outputs.get(fd)
        if output is None:
            output = _outputs[fd] = TextOutput(fd)
    return output
