# SPDX-License-Identifier: Apache-2.0
"""Turns a Numba kernel into a dispatcher of arrays, and computes a digest of its code.

The digest is equal in every process, and changes with every change of the kernel's source.
"""

from __future__ import annotations

import enum
import hashlib
import inspect
import types as python_types
from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

_ELEMENTWISE = (types.Number, types.Boolean)


def _signature(cfunc: Any) -> Any:
    return cfunc._sig


def is_pointer_function(kernel: Any) -> bool:
    """Returns True for a `cfunc` that takes pointers and extents, like a plain C function."""
    if not isinstance(kernel, CFunc):
        return False
    signature = _signature(kernel)
    return (
        signature.return_type == types.int32
        and len(signature.args) == 2
        and all(isinstance(argument, types.RawPointer | types.CPointer) for argument in signature.args)
    )


def check(where: str, kernel: Any) -> None:
    """Raises TypeError, with the reason, if `kernel` cannot be a kernel."""
    if isinstance(kernel, Dispatcher):
        if kernel.targetoptions.get("forceobj"):
            raise TypeError(f"{where}: the kernel is compiled in object mode, which runs in Python; use numba.njit")
        return
    if isinstance(kernel, (DUFunc, GUFunc)):
        return
    if isinstance(kernel, CFunc):
        signature = _signature(kernel)
        elementwise = all(isinstance(kind, _ELEMENTWISE) for kind in (*signature.args, signature.return_type))
        if elementwise or is_pointer_function(kernel):
            return
        raise TypeError(
            f"{where}: a cfunc of signature {signature} does not tell its shapes; one of numbers, or of (pointers, "
            "extents) as in callout/abi.h does"
        )
    if inspect.isfunction(kernel):
        raise TypeError(f"{where}: the kernel is a plain Python function; decorate it with numba.njit")
    raise TypeError(f"{where}: expected a function of numba.njit, vectorize, guvectorize or cfunc, got {kernel!r}")


def _define(name: str, source: str, known: Mapping[str, Any]) -> Any:
    scope = dict(known)
    exec(compile(source, f"<callout.numba {name}>", "exec"), scope)
    return numba.njit(scope[name])


def _elementwise(kernel: Any, num_args: int, is_scalar: bool) -> Any:
    """Returns a kernel that calls a ufunc."""
    args = [f"a{i}" for i in range(num_args)]
    body = f"o[()] = f({', '.join(f'{a}[()]' for a in args)})" if is_scalar else f"f({', '.join([*args, 'o'])})"
    return _define("kernel", f"def kernel({', '.join([*args, 'o'])}):\n    {body}\n", {"f": kernel})


def _generalised(kernel: Any, num_operands: int) -> Any:
    names = ", ".join(f"a{i}" for i in range(num_operands))
    return _define("kernel", f"def kernel({names}):\n    f({names})\n", {"f": kernel})


def _with_constants(kernel: Any, num_operands: int, passed: tuple[str, ...], baked: Mapping[str, Any]) -> Any:
    """Returns a kernel that takes numbers behind its arrays, and has the other constants in its code."""
    arrays = [f"a{i}" for i in range(num_operands)]
    parameters = ", ".join([*arrays, *(f"c_{name}" for name in passed)])
    keywords = [*(f"{name}=c_{name}" for name in passed), *(f"{name}=k_{name}" for name in baked)]
    source = f"def kernel({parameters}):\n    return f({', '.join([*arrays, *keywords])})\n"
    return _define("kernel", source, {"f": kernel, **{f"k_{name}": value for name, value in baked.items()}})


def _takes_exactly(function: Any, count: int) -> bool:
    """Returns True for a function of `count` parameters, none of which has a default."""
    parameters = inspect.signature(function).parameters.values()
    plain = [p.kind == p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters]
    return all(plain) and len(plain) == count


def dispatcher_of(
    kernel: Any, num_args: int, num_results: int, is_scalar: bool, passed: tuple[str, ...], baked: Mapping[str, Any]
) -> Any:
    """Returns a dispatcher of `num_args + num_results` arrays and the numbers `passed`. `kernel` was checked."""
    if isinstance(kernel, CFunc):
        kernel = numba.vectorize([_signature(kernel)])(python_function(kernel))
    if isinstance(kernel, DUFunc):
        kernel = _elementwise(kernel, num_args, is_scalar)
    elif isinstance(kernel, GUFunc):
        kernel = _generalised(kernel, num_args + num_results)
    num_operands = num_args + num_results
    if passed or baked or not _takes_exactly(kernel.py_func, num_operands):
        return _with_constants(kernel, num_operands, passed, baked)
    return kernel


def python_function(kernel: Any) -> Any:
    """Returns the decorated Python function."""
    for holder in (kernel, getattr(kernel, "_dispatcher", None), getattr(kernel, "gufunc_builder", None)):
        for name in ("py_func", "_pyfunc"):
            if found := getattr(holder, name, None):
                return found
    return kernel


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256(f"numba {numba.__version__}".encode())
        self._seen: set[int] = set()  # a function may refer to itself

    def text(self) -> str:
        return self._hash.hexdigest()

    def _write(self, *parts: object) -> None:
        self._hash.update("\0".join(map(str, parts)).encode() + b"\1")

    def add(self, value: Any) -> None:
        """Adds a value that a function refers to."""
        function = python_function(value)
        if function is not value and isinstance(function, python_types.FunctionType):
            self._write(sorted((key, str(option)) for key, option in getattr(value, "targetoptions", {}).items()))
            self.add(function)
        elif isinstance(value, python_types.FunctionType):
            self._add_function(value)
        elif isinstance(value, python_types.CodeType):
            self._add_code(value)
        elif isinstance(value, np.ndarray):
            self._write(value.dtype.str, value.shape)
            self._hash.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, (tuple, list)):
            self._write(type(value).__name__, len(value))
            for item in value:
                self.add(item)
        elif isinstance(value, enum.Enum):
            self._write(type(value).__module__, type(value).__qualname__, value.name)
            self.add(value.value)
        elif isinstance(value, slice):
            self.add((value.start, value.stop, value.step))
        elif isinstance(value, np.dtype):
            self._write("dtype", value.str)
        elif isinstance(value, frozenset):
            self._write(sorted(map(repr, value)))
        elif isinstance(value, (type(None), bool, int, float, complex, str, bytes, np.generic)):
            self._write(type(value).__name__, repr(value))
        else:  # a module, a class or a method, identified by name
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
            self._write(getattr(value, "__module__", ""), name)

    def _add_code(self, code: python_types.CodeType) -> None:
        self._hash.update(code.co_code)
        self._write(code.co_names, code.co_varnames, code.co_freevars)
        for constant in code.co_consts:
            self.add(constant)

    def _add_function(self, function: python_types.FunctionType) -> None:
        self._write(function.__module__, function.__qualname__)
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self._add_code(function.__code__)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # empty
                self._write("empty")
        for default in function.__defaults__ or ():
            self.add(default)
        for name in _names(function.__code__):
            if name in function.__globals__:
                self._write(name)
                self.add(function.__globals__[name])


def _names(code: python_types.CodeType) -> list[str]:
    """Returns the global names that a function and its inner functions use."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            names += _names(constant)
    return names


_BY_VALUE = (type(None), str, bytes, bool, int, float, complex, np.generic, np.ndarray, np.dtype, enum.Enum, slice)


def is_constant(value: Any) -> bool:
    """Returns True for values that can be compiled into a kernel, because they are identified by their contents."""
    if isinstance(value, (tuple, list)):
        return all(map(is_constant, value))
    return isinstance(value, _BY_VALUE) or isinstance(python_function(value), python_types.FunctionType)


def content_of(*values: Any) -> str:
    """Returns a digest of functions and of everything that they refer to."""
    digest = _Digest()
    for value in values:
        digest.add(value)
    return digest.text()
