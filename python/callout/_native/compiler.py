# SPDX-License-Identifier: Apache-2.0
"""C++ files to shared libraries, each once a machine: libraries are kept under a digest of all that went into them."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .. import _errors
from .cache import cache_folder, kept

BASE_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")


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

    def compile_library(library: Path) -> None:
        # Libraries count for what comes before them.
        command = [*compiler, *options, "-shared", *map(str, files), *flags, "-o", str(library)]
        _run(command, f"cannot compile {name}")

    return kept(cache_folder("cpp"), key, ".so", name, compile_library), key
