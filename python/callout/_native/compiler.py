# SPDX-License-Identifier: Apache-2.0
"""A compiler makes a shared library of source files, once a machine, and the library's symbols tell what it exports.

Libraries are kept under a digest of all that went into them. `exported_symbols` reads the dynamic symbol table (ELF-64,
little-endian; see elf(5)).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import os
import shlex
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .._base import errors
from .cache import cache_folder, kept


class CompileError(errors.CallbackError):
    """The compiler refused the source, or there is none. The text has its command and what it said."""


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A command that makes shared libraries.

    Attributes:
        where: who asks, for errors: "callout.cpp".
        kind: the folder of the cache.
        command: the compiler, and arguments that it always gets.
        base_flags: for compilation, before everybody else's.
        preprocess: arguments to preprocess, without lines that say where something is: once for each pass of the compiler.
        macros: arguments to print what is predefined; they say what "-march=native" means.
        variables: of the environment, whose flags the compiler takes too.
    """

    where: str
    kind: str
    command: tuple[str, ...]
    base_flags: tuple[str, ...]
    macros: tuple[str, ...]
    preprocess: tuple[tuple[str, ...], ...] = (("-E", "-P"),)
    variables: tuple[str, ...] = ()

    def run(self, what: str, *arguments: str) -> bytes:
        """Returns what the compiler prints. CompileError if it fails."""
        command = [*self.command, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError as error:
            raise CompileError(f"{self.where}: {what}: {shlex.join(command)}: {error}") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").rstrip()
            raise CompileError(f"{self.where}: {what}: {shlex.join(command)} ended with {done.returncode}\n{said}")
        return done.stdout


@functools.lru_cache(maxsize=16)
def _version(compiler: Compiler) -> str:
    command = [*compiler.command, "--version"]
    try:
        return subprocess.run(command, capture_output=True, check=False).stdout.decode(errors="replace")
    except OSError as error:
        raise CompileError(f"{compiler.where}: {shlex.join(command)}: {error}") from error


def command_in(where: str, variable: str) -> list[str]:
    """Returns the words of a command in an environment variable; none if it is not set, or blank.

    Raises:
        CompileError: a quote is not closed, or there is no such command.
    """
    text = os.environ.get(variable, "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CompileError(f"{where}: {variable}={text!r} is no command: {error}") from error
    if words and shutil.which(words[0]) is None:
        raise CompileError(f"{where}: the compiler {variable}={text!r} was not found")
    return words


def find_compiler() -> Compiler:
    """Returns that of C++: the command in `CXX` if set, or else the first of c++, g++, clang++ on the path."""
    wanted = command_in("callout.cpp", "CXX")
    for command in [wanted] if wanted else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(command[0]):
            flags = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
            macros = ("-dM", "-E", "-x", "c++", "/dev/null")
            return Compiler("callout.cpp", "cpp", (path, *command[1:]), flags, macros)
    raise CompileError("callout.cpp: no C++ compiler was found (c++, g++, clang++); install one, or set CXX")


def build(
    compiler: Compiler, files: Sequence[Path], flags: Sequence[str], include_dirs: Sequence[str], name: str
) -> tuple[Path, str]:
    """Returns the shared library of `files`, compiled if no process on this machine has, and the digest of what made it.

    Raises:
        CompileError: the compiler refused.
    """
    options = [*compiler.base_flags, *(f"-I{folder}" for folder in include_dirs)]
    from_environment = [os.environ.get(variable) for variable in compiler.variables]
    digest = hashlib.sha256(repr((_version(compiler), compiler.base_flags, tuple(flags), from_environment)).encode())
    digest.update(compiler.run(f"cannot compile {name}", *options, *flags, *compiler.macros))
    for flag in flags:
        if Path(flag).is_file():  # an object file, a static library
            digest.update(Path(flag).read_bytes())
    for file, arguments in itertools.product(files, compiler.preprocess):
        digest.update(compiler.run(f"cannot preprocess {name}", *options, *flags, *arguments, str(file)))
    key = digest.hexdigest()[:32]

    def compile_library(library: Path) -> None:
        # Libraries count for what comes before them.
        compiler.run(f"cannot compile {name}", *options, "-shared", *map(str, files), *flags, "-o", str(library))
        try:
            exported_symbols(library)
        except (OSError, ValueError) as error:
            text = f"{compiler.where}: cannot compile {name}: {shlex.join(compiler.command)} wrote no library: {error}"
            raise CompileError(text) from error

    return kept(cache_folder(compiler.kind), key, ".so", name, compile_library), key


_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_DYNSYM = 11


def exported_symbols(path: Path) -> set[str]:
    """Returns the names of the defined symbols. ValueError for a file that is not such a library, or damaged."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no shared library: it has {len(data)} bytes, and begins with {data[:6]!r}")
    try:
        return _dynamic_symbols(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise ValueError(f"the shared library {path} of {len(data)} bytes is damaged: {error}") from error


def _dynamic_symbols(data: bytes) -> set[str]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, table + size * i) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != _DYNSYM:
            continue
        strings = sections[link][4]
        for name, _, _, section, *_ in _SYMBOL.iter_unpack(data[offset : offset + length]):
            if section:
                end = data.index(b"\0", strings + name)
                names.add(data[strings + name : end].decode())
    return names
