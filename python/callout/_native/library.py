# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ and CUDA C++ to shared libraries with Callout's headers, and loads functions from libraries.

`include_dir` and `cmake_dir` return the folders of the headers and of the CMake package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _ext
from .compiler import CompileError, Compiler, build, exported_symbols
from .native_target import Library

Functions = Sequence[str] | Mapping[str, Mapping[str, Any]] | None

_RECORD = "_callout_record"


@dataclasses.dataclass(frozen=True)
class LoadedFunction:
    """A function of a library. `digest`: of the library's inputs. `library`: set if programs embed the library."""

    label: str
    callback: _ext.Callback
    digest: str
    library: Library | None


@contextlib.contextmanager
def source_file(where: str, source: str, name: str, suffix: str) -> Iterator[Path]:
    """Writes a temporary file with this source for the block. Compilers' messages show the name of the module."""
    if not isinstance(source, str):
        raise TypeError(f"{where}: the source must be a string, got {source!r}")
    with tempfile.TemporaryDirectory(prefix="callout-source-") as folder:
        file = Path(folder) / ((re.sub(r"\W", "_", name) or "inline") + suffix)
        file.write_text(f'#line 1 "{file.name}"\n{source}\n')
        yield file


def build_library(
    compiler: Compiler, files: Sequence[Path], flags: Sequence[str], include_dirs: Sequence[str], name: str
) -> tuple[Path, str]:
    """Builds a library like `build`, with Callout's headers on the include path."""
    own = include_dir()
    return build(compiler, files, flags, [*include_dirs, own], name)


def loaded_functions(
    where: str, path: Path, digest: str, name: str, functions: Functions, embed: bool
) -> Iterator[tuple[str, LoadedFunction, Mapping[str, Any]]]:
    """Yields (name, function, settings) for the chosen `functions`; see `_chosen`. `embed`: programs carry the library."""
    for function, settings in _chosen(where, path, name, functions).items():
        label = f"{name}.{function}"
        callback = _ext.load_native(label, f"{path}:{function}")
        yield function, LoadedFunction(label, callback, digest, Library(path, function) if embed else None), settings


def _chosen(where: str, path: Path, name: str, functions: Functions) -> Mapping[str, Mapping[str, Any]]:
    """Returns the functions with their settings: `functions`, or all functions that describe themselves.

    Raises:
        CompileError: the library has no such function, or the file is no library.
    """
    if isinstance(functions, Mapping):
        return functions
    if functions is None:
        try:
            symbols = exported_symbols(path)
        except ValueError as error:
            raise CompileError(f"{where}: {name}: {error}") from error
        functions = sorted(s.removesuffix(_RECORD) for s in symbols if s.endswith(_RECORD))
        if not functions:
            raise CompileError(
                f"{where}: {name} has no function for JAX: mark one by CALLOUT_KERNEL(function), or name one in `functions`"
            )
    return {function: {} for function in functions}


_HOME = Path(__file__).parents[1]


def _folder(what: str, *parts: str) -> str:
    folder = _HOME.joinpath(*parts)
    if not folder.is_dir():
        raise NotImplementedError(
            f"callout: {what} in {_HOME}: this is the pure-Python wheel (py3-none-any), which has no C++ core. A wheel with "
            "the core, for CPython on Linux x86-64, has it; docs/fallback.md has the list"
        )
    return str(folder)


def include_dir() -> str:
    """Returns the folder of the C++ headers, for `-I`.

    Returns:
        Its path.

    Raises:
        NotImplementedError: the pure-Python wheel has none.

    Example:
        >>> import pathlib
        >>> (pathlib.Path(callout.include_dir()) / "callout" / "call.h").exists()
        True
    """
    return _folder("there are no C++ headers", "include")


def cmake_dir() -> str:
    """Returns the folder of the CMake package, for `-Dcallout_DIR=`.

    Returns:
        Its path.

    Raises:
        NotImplementedError: the pure-Python wheel has none.

    Example:
        >>> import pathlib
        >>> pathlib.Path(callout.cmake_dir()).is_dir()
        True
    """
    return _folder("there is no CMake package", "lib", "cmake", "callout")
