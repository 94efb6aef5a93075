# SPDX-License-Identifier: Apache-2.0
"""What native sinks have in common."""

from __future__ import annotations

from typing import Any

from .. import _ext
from .._targets.sink import Sink


class NativeSink(Sink):
    """Holds the core's sink."""

    _callout_callback: _ext.Callback

    def _make(self, kind: str, name: str, **options: Any) -> None:
        """Makes the core's sink of this kind, whose options have defaults: None is not given."""
        self._callout_callback = _ext.make_sink(name, kind, _texts(options))

    def _told(self) -> list[str]:
        """Returns the arguments that `repr` shows besides the name."""
        return []

    def __repr__(self) -> str:
        told = [*self._told(), f"name={self._callout_callback.label!r}"]
        return f"{type(self).__name__}({', '.join(told)})"


def _texts(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns (option, value) as the core reads them, one for each element of a list."""
    given = [(name, value) for name, value in options.items() if value is not None]
    return [(name, _text(each)) for name, value in given for each in (value if isinstance(value, list) else [value])]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
