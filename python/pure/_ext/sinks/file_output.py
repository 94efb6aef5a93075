# SPDX-License-Identifier: Apache-2.0
"""Whole records on their way to a file that nobody else writes."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from bisect import bisect
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import log
from ..failures import FAILED_PRECONDITION, INTERNAL, INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, Failure
from ..process.forks import is_forked_child
from . import locks
from .options import Options

_WRITE_AT = 256 << 10  # a batch larger than this is written in parts
_NEVER = -1.0
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


def _fsync_seconds(options: Options) -> float:
    text = str(options.text("fsync", "never"))
    if text == "never":
        return _NEVER
    return 0.0 if text == "batch" else float(text)


class FileOutput:
    """Thread-safe. Nothing is written in a forked child."""

    def __init__(self, options: Options, what: str, read: Callable[[bytes], None] | None = None):
        """`read` gets what a file holds that is appended to. Failure if it cannot be opened."""
        self.path = str(options.text("path"))
        self._absolute = Path(self.path).absolute()  # the working directory may change
        self._cannot_open = f"cannot open '{self.path}' for {what}"
        self._fsync = _fsync_seconds(options)
        self._rotate = self._rotate_at = options.integer("rotate_bytes", 0)
        self._keep = options.integer("keep", -1)
        self._lock = threading.RLock()
        self._header = b""
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._torn = 0  # bytes at the end of the file, of a record that was not written whole
        self._lost = 0  # records, in all
        self._synced = time.monotonic()
        self._file: int | None = self._open(self._absolute, options.flag("append"), read)

    def _open(self, path: Path, append: bool, read: Callable[[bytes], None] | None) -> int:
        try:
            with contextlib.suppress(OSError):  # `open` says what is wrong
                path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, _FLAGS, 0o644)  # no object of Python's, which the collector might close first
        except OSError as error:
            code = PERMISSION_DENIED if isinstance(error, PermissionError) else NOT_FOUND
            raise Failure(code, f"{self._cannot_open}: {error.strerror}") from None
        self._is_regular = path.is_file()
        if not self._is_regular:  # a pipe or a device
            self._bytes = 0
            self._key = (0, 0)
            if self._rotate:
                os.close(file)
                raise Failure(INVALID_ARGUMENT, f"{self._cannot_open}: only regular files are rotated")
            return file
        try:
            locks.take(file, self._cannot_open)
            self._key = locks.key_of(os.fstat(file))
            self._bytes = self._begin(path, file, append, read)
        except BaseException:
            if hasattr(self, "_key"):
                locks.give_back(self._key)
            os.close(file)
            raise
        return file

    def _begin(self, path: Path, file: int, append: bool, read: Callable[[bytes], None] | None) -> int:
        """How many bytes the file has that stay: all up to its last whole line, if it is appended to."""
        if not append:
            if self._rotate:
                for old in _rotated(path):
                    old.unlink()
            os.ftruncate(file, 0)
            return 0
        held = path.read_bytes()
        whole = held[: held.rfind(b"\n") + 1]
        if len(whole) < len(held):
            torn = len(held) - len(whole)
            text = f"'{self.path}' ends in a record that was not written whole: its {torn} bytes are cut off"
            log.log(logging.WARNING, text)
            os.ftruncate(file, len(whole))
        if whole and read is not None:
            read(whole)
        return len(whole)

    def set_header(self, header: str) -> None:
        """What stands in front of the first record of this file, if it is empty, and of each that follows."""
        with self._lock:
            self._header = header.encode()

    def add(self, record: str) -> None:
        """A whole record. Failure, also if only the others before it could not be written, or the file not be rotated."""
        failure: Failure | None = None
        with self._lock:
            self._check_open()
            data = record.encode("utf-8", "replace")
            has_record = bool(self._pending) or self._bytes > len(self._header)
            if self._rotate and has_record and self._bytes + self._pending_bytes + len(data) > self._rotate_at:
                try:
                    self._write()
                    self._change_files()
                except Failure as error:
                    if self._file is None:
                        raise
                    failure = error  # the record goes to the same file
            if self._bytes == 0 and not self._pending and self._header:
                self._append(self._header)
            self._append(data)
            if self._pending_bytes >= _WRITE_AT:
                self._write()
        if failure is not None:
            raise failure

    def _append(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)

    def _check_open(self) -> None:
        if self._file is None:
            raise Failure(FAILED_PRECONDITION, f"cannot write to '{self.path}': it is closed")
        if is_forked_child():
            raise Failure(FAILED_PRECONDITION, f"cannot write to '{self.path}' in a forked child")

    def flush(self) -> None:
        """Writes what was added, and the header."""
        if is_forked_child():
            return
        with self._lock:
            if self._file is None:
                return
            if self._bytes == 0 and not self._pending and self._header:
                self._append(self._header)
            self._write()
            if self._fsync >= 0 and time.monotonic() - self._synced >= self._fsync:
                self._sync()

    def _sync(self) -> None:
        assert self._file is not None
        self._synced = time.monotonic()
        try:
            os.fsync(self._file)
        except OSError as error:
            raise Failure(INTERNAL, f"cannot sync '{self.path}': {error.strerror}") from None

    def _write(self) -> None:
        if not self._pending:
            return
        assert self._file is not None
        parts, self._pending, self._pending_bytes = self._pending, [], 0
        rest = memoryview(b"".join(parts))
        size = len(rest)
        try:
            self._cut_torn()
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            text = f"cannot write to '{self.path}': {error.strerror}{self._count_lost(parts, size - len(rest))}"
            raise Failure(INTERNAL, text) from None
        self._bytes += size

    def _count_lost(self, parts: Sequence[bytes], written: int) -> str:
        """Cuts off what was written of a record, and says how many are lost."""
        ends = list(itertools.accumulate(map(len, parts)))
        whole = bisect(ends, written)
        kept = ends[whole - 1] if whole else 0
        self._bytes += kept
        if written > kept and self._is_regular:
            self._torn = written - kept
        with contextlib.suppress(OSError):  # tried again before the next write
            self._cut_torn()
        lost = sum(part is not self._header for part in parts[whole:])
        self._lost += lost
        in_all = "" if self._lost == lost else f", {self._lost} in all"
        return f"; {lost} records are lost{in_all}" if lost else ""

    def _cut_torn(self) -> None:
        """Counted from where the file ends now: others may have emptied it."""
        if not self._torn:
            return
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if size >= self._torn:
            os.ftruncate(self._file, size - self._torn)
        self._torn = 0

    def _change_files(self) -> None:
        """Goes on in the same file if that cannot be renamed."""
        assert self._file is not None
        if self._fsync >= 0:
            self._sync()
        os.close(self._file)  # some systems rename no open files
        self._file = None  # from now on the number may be another file's
        locks.give_back(self._key)
        refused = ""
        try:
            self._rename()
        except OSError as error:
            refused = error.strerror or str(error)
        self._file = self._open(self._absolute, append=True, read=None)
        self._rotate_at = self._rotate
        if refused:
            self._rotate_at += self._bytes
            raise Failure(INTERNAL, f"cannot rotate '{self.path}': {refused}")

    def _rename(self) -> None:
        old = _rotated(self._absolute)
        if 0 <= self._keep <= len(old):
            for path in old[self._keep - 1 :]:
                path.unlink()
            old = old[: self._keep - 1]
        for number, path in reversed(list(enumerate(old, 1))):
            path.replace(f"{self._absolute}.{number + 1}")
        self._absolute.replace(f"{self._absolute}.1")

    def close(self) -> None:
        """Writes what was added, and lets go of the file. Again does nothing."""
        if is_forked_child():
            return
        with self._lock:
            file, key = self._file, self._key
            if file is None:
                return
            try:
                self._write()
                if self._fsync >= 0:
                    self._sync()
            finally:
                self._file = None
                os.close(file)
                locks.give_back(key)


def _rotated(path: Path) -> list[Path]:
    """PATH.1, PATH.2 and so on, as many as there are."""
    found: list[Path] = []
    while (next_one := Path(f"{path}.{len(found) + 1}")).exists():
        found.append(next_one)
    return found
