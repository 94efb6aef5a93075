# SPDX-License-Identifier: Apache-2.0
"""C++ files to shared libraries, each once a machine: libraries are kept under a digest of all that went into them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import _errors
from .._config import config
from .._logging import logger

BASE_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
_PATIENCE_S = 5.0
_LEAST_FREE_BYTES = 16_000_000


class CompileError(_errors.CallbackError):
    """C++ source that the compiler refused, or no compiler. The text has its command and what it said."""


def find_compiler() -> tuple[str, ...]:
    """The command in `CXX` if set, or else the first of c++, g++, clang++ on the path."""
    wanted = os.environ.get("CXX")
    for command in [shlex.split(wanted)] if wanted else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(command[0]):
            return (path, *command[1:])
    raise CompileError(
        f"callout.cpp: the compiler CXX={wanted!r} was not found"
        if wanted
        else "callout.cpp: no C++ compiler was found (c++, g++, clang++); install one, or set CXX"
    )


@functools.lru_cache(maxsize=16)
def _version(compiler: tuple[str, ...]) -> str:
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _run(command: Sequence[str], what: str) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise CompileError(f"callout.cpp: {what}: {shlex.join(command)}: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").rstrip()
        raise CompileError(f"callout.cpp: {what}: {shlex.join(command)} ended with {done.returncode}\n{said}")
    return done.stdout


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


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Other processes that want the same library wait, and find it when it is their turn."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cache_folder() -> Path:
    folder = Path(config.cache_dir) / "cpp"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
        if (free := shutil.disk_usage(folder).free) < _LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, f"only {free // 1024} KB are free")
    except OSError as error:
        logger.warning(
            "cpp: the cache folder %s cannot be used (%s); compiling into a temporary one", folder, str(error)
        )
        return _temporary_folder()
    return folder


@functools.lru_cache(maxsize=1)
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="callout-cpp-"))


def build(files: Sequence[Path], flags: Sequence[str], include_dirs: Sequence[str], name: str) -> tuple[Path, str]:
    """The shared library of `files`, compiled if no process on this machine has, and the digest of what it is made of.

    Raises:
        CompileError: the compiler refused, or there is none.
    """
    compiler = find_compiler()
    options = [*BASE_FLAGS, *(f"-I{folder}" for folder in include_dirs)]
    digest = hashlib.sha256(repr((_version(compiler), BASE_FLAGS, tuple(flags))).encode())
    # What "-march=native" means is among the predefined macros.
    digest.update(_run([*compiler, *options, *flags, "-dM", "-E", "-x", "c++", "/dev/null"], f"cannot compile {name}"))
    for flag in flags:
        if Path(flag).is_file():  # an object file, a static library
            digest.update(Path(flag).read_bytes())
    for file in files:
        digest.update(_run([*compiler, *options, *flags, "-E", "-P", str(file)], f"cannot preprocess {name}"))
    key = digest.hexdigest()[:32]
    folder = _cache_folder()
    library = folder / f"{key}.so"
    if library.exists():
        return library, key
    with _locked(folder / f"{key}.lock"):
        if not library.exists():
            for left in folder.glob(f".{key}.*"):  # of a process that was killed: this one has the lock
                left.unlink(missing_ok=True)
            unfinished = folder / f".{key}.{os.getpid()}.so"
            try:
                with _progress(name):
                    _run(
                        # Libraries count for what comes before them.
                        [*compiler, *options, "-shared", *map(str, files), *flags, "-o", str(unfinished)],
                        f"cannot compile {name}",
                    )
                unfinished.replace(library)
            finally:
                unfinished.unlink(missing_ok=True)
    return library, key
