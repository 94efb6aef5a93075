# SPDX-License-Identifier: Apache-2.0
"""Functions of buffers, which `callout.buffer_callback` makes from Python functions, and `callout.register` takes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

from jax.tree_util import PyTreeDef

from .. import _ext
from .._base import options
from .function_targets import is_leaf

_KEY = "_callout_buffer_function"


@dataclasses.dataclass(frozen=True)
class BufferFunction:
    """A function of buffers, and the structure of its results."""

    callback: Callable[..., None]
    out_tree: PyTreeDef
    code: types.CodeType  # of the noted function, because wrappers copy its attributes

    def under(self, name: str) -> _ext.Callback:
        """Returns the core's callback, which gets the flat leaves of the arguments, because programs have no structure."""
        fn, chosen = options.split(self.callback)
        return _ext.make_buffer_callback(
            label=chosen.name or name,
            function=fn,
            unflatten_out=None if is_leaf(self.out_tree) else self.out_tree.unflatten,
            unflatten=None,
            numpy_only=chosen.numpy_only,
        )


def note(function: Callable[..., Any], callback: Any, out_tree: PyTreeDef) -> None:
    """Notes the Python function behind a function that `callout.buffer_callback` returns."""
    if callable(callback) and isinstance(function, types.FunctionType):
        function.__dict__[_KEY] = BufferFunction(callback, out_tree, function.__code__)


def buffer_function_of(function: Any) -> BufferFunction | None:
    """Returns the noted function of buffers; None for every other object."""
    if type(function) is not types.FunctionType:
        return None
    noted = function.__dict__.get(_KEY)
    return noted if isinstance(noted, BufferFunction) and noted.code is function.__code__ else None
