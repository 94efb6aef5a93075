# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.Null`."""

from __future__ import annotations

from .. import _ext
from .native_sink import NativeSink


class Null(NativeSink):
    """Takes and forgets."""

    def __init__(self, *, name: str = "null"):
        self._callout_callback = _ext.make_null_sink(name)
