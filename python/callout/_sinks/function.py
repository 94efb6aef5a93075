# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Function`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Function:
    """A Python function as a sink: the same as passing the function to `tap`, for code that takes sinks."""

    def __init__(self, fn: Callable[..., Any]):
        if not callable(fn):
            raise TypeError(f"callout.sinks.Function: expected a callable, got {fn!r}")
        self._callout_function = fn
