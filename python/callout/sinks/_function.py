# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Function`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._targets.sink import Sink


class Function(Sink):
    """Makes a Python function a sink: the same as passing the function to `tap`, for code that takes sinks.

    Args:
        fn: gets what a tap's function gets.

    Raises:
        TypeError: `fn` is not callable.

    Example:
        >>> sink = callout.sinks.Function(lambda value: print(value))
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5)); callout.barrier_wait()
        0.5
    """

    def __init__(self, fn: Callable[..., Any]):
        if not callable(fn):
            raise TypeError(f"callout.sinks.Function: expected a callable, got {fn!r}")
        self._callout_function = fn

    def __repr__(self) -> str:
        return f"Function({self._callout_function!r})"
