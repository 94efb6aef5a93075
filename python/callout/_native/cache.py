# SPDX-License-Identifier: Apache-2.0
"""Caches compiled files on a machine, each under a digest of all of its inputs."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .._base.config import config
from .._base.loggers import logger

_PATIENCE_S = 5.0
_LEAST_FREE_BYTES = 16_000_000


def cache_folder(kind: str) -> Path:
    """Returns the folder for files of a kind ("cpp") in `config.cache_dir`, or a temporary one if it cannot be used."""
    folder = Path(config.cache_dir) / kind
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
        if (free := shutil.disk_usage(folder).free) < _LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, f"only {free // 1024} KB are free")
    except OSError as error:
        logger.warning(
            "%s: the cache folder %s cannot be used (%s); compiling into a temporary one", kind, folder, str(error)
        )
        return _temporary_folder(kind)
    return folder


@functools.lru_cache(maxsize=2)
def _temporary_folder(kind: str) -> Path:
    return temporary_folder(kind)


def temporary_folder(kind: str) -> Path:
    """Returns a folder that this process removes at its end, but a forked child does not."""
    folder, process = Path(tempfile.mkdtemp(prefix=f"callout-{kind}-")), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def kept(
    folder: Path, key: str, suffix: str, name: str, make: Callable[[Path], None], beside: Sequence[str] = ()
) -> Path:
    """Returns the file of `key`. If the cache does not have it, `make(path)` writes it.

    A damaged file, from a full disk or a crash, is made again. Blocks until no other process makes the file. `name`:
    shown to the user if the compilation takes long. `beside`: suffixes of further files of `key`, which `make` writes
    to their final places.
    """
    file = folder / f"{key}{suffix}"
    sums = folder / f"{key}.sums"
    others = [folder / f"{key}{more}" for more in beside]
    if _are_whole([file, *others], sums):
        return file
    with _locked(folder / f"{key}.lock"):
        if not _are_whole([file, *others], sums):
            for left in folder.glob(f".{key}.*"):  # left by a killed process, because this one has the lock
                left.unlink(missing_ok=True)
            unfinished = folder / f".{key}.{os.getpid()}{suffix}"
            try:
                with _progress(name):
                    make(unfinished)
                text = "".join(f"{_sum(each)}\n" for each in [unfinished, *others])
                unfinished.replace(file)
                unfinished.write_text(text)
                unfinished.replace(sums)
            finally:
                unfinished.unlink(missing_ok=True)
    return file


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _are_whole(files: Sequence[Path], sums: Path) -> bool:
    """Returns True if the files have their recorded checksums."""
    try:
        return [_sum(file) for file in files] == sums.read_text().split()
    except (OSError, UnicodeError):
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # not on Windows, which compiles nothing

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _progress(name: str) -> Iterator[None]:
    def say() -> None:
        sys.stderr.write(f"callout: compiling {name} ...\n")

    timer = threading.Timer(_PATIENCE_S, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
