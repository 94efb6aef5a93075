# SPDX-License-Identifier: Apache-2.0
"""Compiles Numba kernels for GPUs: once for each kernel and combination of types."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..numba_refusal import is_of_a_write, refused_write
from .numba_compiler import ArrayType, Code, Compiler, NumberType, ParameterType

_TOOLS = "what it compiles with is not installed, or its driver is not: pip install {package}[cu13] (or [cu12])"

_lock = threading.RLock()  # of the compilers; Numba's own is global, too
_codes: weakref.WeakKeyDictionary[Any, dict[tuple[ParameterType, ...], Code]] = weakref.WeakKeyDictionary()


@functools.cache
def _numba_cuda() -> Compiler:
    from .numba_cuda_compiler import NumbaCuda

    return NumbaCuda()


@functools.cache
def _numba_cuda_mlir() -> Compiler:
    from .numba_mlir_compiler import NumbaCudaMlir

    return NumbaCudaMlir()


# Where the class of a kernel is, and who compiles it. A kernel exists only if its module was imported.
_COMPILERS = (
    ("numba.cuda.dispatcher", "CUDADispatcher", _numba_cuda),
    ("numba_cuda_mlir.descriptor", "MLIRDispatcher", _numba_cuda_mlir),
)


def _is_of(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def has_compiler(kernel: Any) -> bool:
    """Returns True for what `cuda.jit` of one of the packages returned."""
    return any(_is_of(kernel, module, name) for module, name, _ in _COMPILERS)


def is_simulated(kernel: Any) -> bool:
    """Returns True for a kernel of Numba's simulator."""
    return _is_of(kernel, "numba.cuda.simulator.kernel", "FakeCUDAKernel")


def compiler_of(kernel: Any) -> Compiler:
    """Returns the package that compiles a kernel for which `has_compiler` is true."""
    return next(make() for module, name, make in _COMPILERS if _is_of(kernel, module, name))


def compiled(where: str, kernel: Any, parameters: Sequence[ParameterType]) -> Code:
    """Returns a kernel's code for these parameters. Thread-safe.

    Raises:
        ImportError: what Numba compiles with is missing.
        TypeError: Numba does not compile the kernel for them.
    """
    key = tuple(parameters)
    compiler = compiler_of(kernel)
    with _lock:
        codes = _codes.setdefault(kernel, {})
        if key not in codes:
            codes[key] = _compile(where, compiler, kernel, key)
        return codes[key]


def _compile(where: str, compiler: Compiler, kernel: Any, parameters: tuple[ParameterType, ...]) -> Code:
    if not getattr(kernel, "_can_compile", True):
        types, made = _made_before(where, compiler, kernel, parameters)
    else:
        types, made = _make(where, compiler, kernel, parameters)
    numbers = tuple(
        compiler.dtype_of(kind) or parameter.dtype if isinstance(parameter, NumberType) else None
        for kind, parameter in zip(types, parameters, strict=True)
    )
    try:
        return compiler.code_of(kernel, made, numbers)
    except (ImportError, TypeError) as error:
        raise type(error)(f"{where}: {error}") from error


def _made_before(
    where: str, compiler: Compiler, kernel: Any, parameters: tuple[ParameterType, ...]
) -> tuple[tuple[Any, ...], Any]:
    """Finds, for a kernel with signatures, what was compiled for the one that fits."""
    for types, made in kernel.overloads.items():
        if len(types) == len(parameters) and all(map(compiler.fits, types, parameters)):
            return types, made
    wanted = tuple(map(compiler.type_of, parameters))
    raise TypeError(f"{where}: the kernel was compiled for {list(kernel.overloads)} only, not {wanted}")


def _make(
    where: str, compiler: Compiler, kernel: Any, parameters: tuple[ParameterType, ...]
) -> tuple[tuple[Any, ...], Any]:
    """Compiles a kernel for arguments that cannot be written to.

    Where Numba refuses that for another reason than a write, as it does if they go to a device function with a signature,
    with ones that can.
    """
    types = tuple(map(compiler.type_of, parameters))
    try:
        return types, _attempt(where, compiler, kernel, types)
    except TypeError as error:
        writable = tuple(compiler.type_of(parameter, read_only=False) for parameter in parameters)
        if writable == types or is_of_a_write(error.__cause__):
            raise
        try:
            return writable, _attempt(where, compiler, kernel, writable)
        except TypeError as second:
            raise second from second.__cause__


def _attempt(where: str, compiler: Compiler, kernel: Any, types: tuple[Any, ...]) -> Any:
    try:
        return compiler.compile(kernel, types)
    except ImportError as error:  # Numba's errors for tools that are missing are such
        raise ImportError(
            f"{where}: {compiler.package} cannot compile the kernel, {_TOOLS.format(package=compiler.package)}: {error}"
        ) from error
    except Exception as error:  # Numba raises others than NumbaError, too
        if is_of_a_write(error):
            raise refused_write(where) from error
        kind = "" if "NumbaError" in {cls.__name__ for cls in type(error).__mro__} else f"{type(error).__name__}: "
        signature = ", ".join(map(str, types))
        raise TypeError(
            f"{where}: {compiler.package} does not compile the kernel for ({signature}): {kind}{error}"
        ) from error


def array_type(where: str, what: str, compiler: Compiler, aval: Any, *, is_writable: bool) -> ArrayType:
    """Returns the parameter for an operand. TypeError if Numba has no such dtype."""
    return ArrayType(_known(where, what, compiler, np.dtype(aval.dtype)), len(aval.shape), is_writable)


def number_type(where: str, what: str, compiler: Compiler, dtype: np.dtype[Any]) -> NumberType:
    """Returns the parameter for a number. TypeError if Numba has no such dtype."""
    return NumberType(_known(where, what, compiler, dtype))


def _known(where: str, what: str, compiler: Compiler, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if compiler.scalar_type(dtype) is None:
        raise TypeError(
            f"{where}: {what} is {dtype.name}, which {compiler.package} does not have; convert it, or pass its bits "
            "(jax.lax.bitcast_convert_type)"
        )
    return dtype
