# SPDX-License-Identifier: Apache-2.0
"""Functions of buffers: `callout.buffer_callback` makes them of Python functions, and they can be registered."""

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
    """Holds a function of buffers, and the structure of its results."""

    callback: Callable[..., None]
    out_tree: PyTreeDef
    code: types.CodeType  # of the function that it was noted at: wrappers take over attributes

    def under(self, name: str) -> _ext.Callback:
        """Returns the core's callback, which gets the flat leaves of the arguments: programs do not know their structure."""
        fn, chosen = options.split(self.callback)
        return _ext.make_buffer_callback(
            label=chosen.name or name,
            function=fn,
            unflatten_out=None if is_leaf(self.out_tree) else self.out_tree.unflatten,
            unflatten=None,
            numpy_only=chosen.numpy_only,
        )


def note(function: Callable[..., Any], callback: Any, out_tree: PyTreeDef) -> None:
    """Notes what a function calls that `callout.buffer_callback` returns."""
    if callable(callback) and isinstance(function, types.FunctionType):
        function.__dict__[_KEY] = BufferFunction(callback, out_tree, function.__code__)


def buffer_function_of(function: Any) -> BufferFunction | None:
    """Returns what was noted; None for every other object."""
    if type(function) is not types.FunctionType:
        return None
    noted = function.__dict__.get(_KEY)
    return noted if isinstance(noted, BufferFunction) and noted.code is function.__code__ else None
