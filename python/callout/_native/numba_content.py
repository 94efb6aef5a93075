# SPDX-License-Identifier: Apache-2.0
"""What a Numba kernel computes, as a digest: the same in every process, another after every change of its source."""

from __future__ import annotations

import enum
import hashlib
import types
from typing import Any

import numba
import numpy as np

from .numba_kernel import python_function


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256(f"numba {numba.__version__}".encode())
        self._seen: set[int] = set()  # a function may refer to itself

    def text(self) -> str:
        return self._hash.hexdigest()

    def _write(self, *parts: object) -> None:
        self._hash.update("\0".join(map(str, parts)).encode() + b"\1")

    def add(self, value: Any) -> None:
        """Adds anything that a function refers to."""
        function = python_function(value)
        if function is not value and isinstance(function, types.FunctionType):
            self._write(sorted((key, str(option)) for key, option in getattr(value, "targetoptions", {}).items()))
            self.add(function)
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(value, types.CodeType):
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
        else:  # a module, a class, a method of one: known by its name
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
            self._write(getattr(value, "__module__", ""), name)

    def _add_code(self, code: types.CodeType) -> None:
        self._hash.update(code.co_code)
        self._write(code.co_names, code.co_varnames, code.co_freevars)
        for constant in code.co_consts:
            self.add(constant)

    def _add_function(self, function: types.FunctionType) -> None:
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


def _names(code: types.CodeType) -> list[str]:
    """Returns the global names that a function and those defined in it use."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names


_BY_VALUE = (type(None), str, bytes, bool, int, float, complex, np.generic, np.ndarray, np.dtype, enum.Enum, slice)


def is_constant(value: Any) -> bool:
    """Returns True for what is known by its value, and may be compiled into a kernel."""
    if isinstance(value, (tuple, list)):
        return all(map(is_constant, value))
    return isinstance(value, _BY_VALUE) or isinstance(python_function(value), types.FunctionType)


def content_of(*values: Any) -> str:
    """Returns a digest of functions and of all that they refer to."""
    digest = _Digest()
    for value in values:
        digest.add(value)
    return digest.text()
