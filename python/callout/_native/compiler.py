# SPDX-License-Identifier: Apache-2.0
"""Compiles source files to cached shared libraries, and reads the symbols that a library exports.

Libraries are cached under a digest of all of their inputs. `exported_symbols` reads the dynamic symbol table (ELF-64,
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
    """The compiler rejected the source, or no compiler was found. The text has the command and its output."""


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A command that makes shared libraries.

    Attributes:
        where: the module's name in errors: "callout.cpp".
        kind: the name of the cache's folder.
        command: the compiler, and its constant arguments.
        base_flags: flags for compilation, before all others.
        preprocess: arguments for preprocessing without line markers: one list for each pass of the compiler.
        macros: arguments to print predefined macros, which reveal the meaning of "-march=native".
        variables: environment variables with further flags of the compiler.
    """

    where: str
    kind: str
    command: tuple[str, ...]
    base_flags: tuple[str, ...]
    macros: tuple[str, ...]
    preprocess: tuple[tuple[str, ...], ...] = (("-E", "-P"),)
    variables: tuple[str, ...] = ()

    def run(self, what: str, *arguments: str) -> bytes:
        """Runs the compiler, and returns its output. Raises CompileError if it fails."""
        command = [*self.command, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError as error:
            raise CompileError(f"{self.where}: {what}: {shlex.join(command)}: {error}") from error
        if done.returncode:
            output = done.stderr.decode(errors="replace").rstrip()
            raise CompileError(f"{self.where}: {what}: {shlex.join(command)} ended with {done.returncode}\n{output}")
        return done.stdout


@functools.lru_cache(maxsize=16)
def _version(compiler: Compiler) -> str:
    command = [*compiler.command, "--version"]
    try:
        return subprocess.run(command, capture_output=True, check=False).stdout.decode(errors="replace")
    except OSError as error:
        raise CompileError(f"{compiler.where}: {shlex.join(command)}: {error}") from error


def command_in(where: str, variable: str) -> list[str]:
    """Returns the words of the command in an environment variable; none if it is unset or blank.

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
    """Returns the C++ compiler: the command in `CXX` if set, or else the first of c++, g++, clang++ on the path."""
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
    """Returns the shared library of `files`, from the cache or compiled, and the digest of its inputs.

    Raises:
        CompileError: the compiler rejected a file.
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
        # The flags are behind the files, because the linker uses a library only for files before it.
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
    """Returns the names of the defined symbols. Raises ValueError if the file is no such library, or is damaged."""
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
