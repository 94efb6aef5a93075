# SPDX-License-Identifier: Apache-2.0
"""The base of modules that have the functions of a library or an image as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

from .function import NativeFunction

FunctionT = TypeVar("FunctionT", bound=NativeFunction)


class Module(Generic[FunctionT]):
    """Has native functions as attributes. `path` is the file with the functions."""

    def __init__(self, name: str, path: Path | None, functions: Mapping[str, FunctionT]):
        self.__name__ = name
        self.path = path
        self._functions = dict(functions)

    def __getattr__(self, name: str) -> FunctionT:
        functions = self.__dict__.get("_functions")
        if functions is None:  # while the object is constructed
            raise AttributeError(name)
        if name in functions:
            found: FunctionT = functions[name]
            return found
        raise AttributeError(f"module {self.__name__!r} has no function {name!r}; there are: {', '.join(functions)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"<native module {self.__name__!r}: {', '.join(self._functions)}>"
