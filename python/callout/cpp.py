# SPDX-License-Identifier: Apache-2.0
"""C++ source becomes JAX functions, which run without Python."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from ._base import errors
from ._base.public_modules import publish
from ._native.compiler import CompileError as CompileError
from ._native.compiler import find_compiler
from ._native.cpp_function import Function as Function
from ._native.cpp_function import library_target
from ._native.function import Settings
from ._native.library import Functions, build_library, loaded_functions, source_file
from ._native.module import Module as _Module

__all__ = ["CompileError", "Function", "load", "load_inline"]
publish(__name__)

# The digest of each library that was built elsewhere, taken when the library was loaded.
_opened: dict[Path, str] = {}


class Module(_Module[Function]):
    """Has the functions of a library as attributes. `path` is the shared library."""

    path: Path


def load_inline(
    source: str,
    functions: Functions = None,
    *,
    flags: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    name: str | None = None,
    embed: bool = False,
) -> Module:
    """Compiles C++ source, unless the compiled library is in this machine's cache, and returns its functions.

    Args:
        source: C++20. A function becomes one of the module by `CALLOUT_KERNEL(function)` of callout/kernel.h, by
            `CALLOUT_DEFINE_CALLBACK` of callout/call.h, or, if it is named in `functions`, by being an exported
            `extern "C" int32_t f(void** ptrs, const int64_t* dims)`.
        functions: names, or names with settings (`{"scale": {"vmap_method": "sequential"}}`, see `Function`). By
            default all functions that the two macros declare.
        flags: options of the compiler after "-std=c++20 -O2", such as "-lm".
        include_dirs: folders for `#include`, besides Callout's own.
        name: the module's name in messages; "inline" by default.
        embed: programs carry the compiled library, so that an exported program runs on machines without the source.
            Such a machine needs the platform, the processor instructions and the libraries that the compiled library
            uses. SECURITY.md describes what loading such a program risks.

    Returns:
        A module: its attributes are the functions, `path` is the shared library.

    Raises:
        CompileError: the compiler refused the source, or there is none.
        RegistrationError: `functions` names one that the library does not export.

    Example:
        >>> module = callout.cpp.load_inline('''
        ... #include "callout/kernel.h"
        ... void scale(callout::In<float> x, callout::Attr<"factor", float> factor, callout::Out<float> y) {
        ...   for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
        ... }
        ... CALLOUT_KERNEL(scale);
        ... ''')
        >>> jax.jit(lambda x: module.scale(x, factor=2.0))(jnp.ones(3))
        Array([2., 2., 2.], dtype=float32)
    """
    with source_file("callout.cpp.load_inline", source, name or "inline", ".cc") as file:
        return _load([file], functions, flags, include_dirs, name or "inline", embed)


def load(
    files: Sequence[str | Path] | str | Path,
    functions: Functions = None,
    *,
    flags: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    name: str | None = None,
    embed: bool = False,
) -> Module:
    """Compiles C++ files to one library, or opens a library that was built elsewhere, if `files` is a single ".so".

    Args:
        files: C++ sources, or one file that ends with ".so".
        functions: as in `load_inline`.
        flags: as in `load_inline`.
        include_dirs: as in `load_inline`.
        name: the module's name in messages; the first file's by default.
        embed: as in `load_inline`.

    Returns:
        A module: its attributes are the functions, `path` is the shared library.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no files.
        CompileError: the compiler refused a file, or there is none.
        RegistrationError: `functions` names a function that the library does not export; or the library has changed
            since it was loaded.

    Example:
        >>> import pathlib
        >>> _ = pathlib.Path("scale.cc").write_text('''
        ... #include "callout/kernel.h"
        ... void scale(callout::In<float> x, callout::Attr<"factor", float> factor, callout::Out<float> y) {
        ...   for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
        ... }
        ... CALLOUT_KERNEL(scale);
        ... ''')
        >>> callout.cpp.load("scale.cc").scale(jnp.ones(3), factor=2.0)
        Array([2., 2., 2.], dtype=float32)
    """
    paths = [Path(files)] if isinstance(files, (str, Path)) else [Path(file) for file in files]
    if not paths:
        raise ValueError("callout.cpp.load: no files")
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"callout.cpp.load: {path} is not a file")
    if len(paths) == 1 and paths[0].suffix == ".so":
        path = paths[0].resolve()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if _opened.setdefault(path, digest) != digest:
            raise errors.RegistrationError(
                f"callout.cpp.load: {path} has changed since this process loaded it, and a process loads a path once; give "
                "the library another name"
            )
        return _open(path, digest, functions, name or path.stem, embed)
    return _load(paths, functions, flags, include_dirs, name or paths[0].stem, embed)


def _load(
    files: Sequence[Path],
    functions: Functions,
    flags: Sequence[str],
    include_dirs: Sequence[str],
    name: str,
    embed: bool,
) -> Module:
    path, digest = build_library(find_compiler(), files, flags, include_dirs, name)
    return _open(path, digest, functions, name, embed)


def _open(path: Path, digest: str, functions: Functions, name: str, embed: bool) -> Module:
    loaded = loaded_functions("callout.cpp", path, digest, name, functions, embed)
    made = {function: Function(library_target(code), function, Settings(**chosen)) for function, code, chosen in loaded}
    return Module(name, path, made)
