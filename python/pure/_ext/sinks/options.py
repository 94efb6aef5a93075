# SPDX-License-Identifier: Apache-2.0
"""What was given of a sink's options, (name, value) as text; the classes of callout.sinks have checked them."""

from __future__ import annotations

from collections.abc import Sequence

from ..text.utf8 import escaped


class Options:
    """The options of one sink, read one by one."""

    def __init__(self, given: Sequence[tuple[str, str]]):
        self._given = [(name, value if name == "path" else escaped(value)) for name, value in given]

    def texts(self, name: str) -> list[str]:
        """All values of an option that may be given several times."""
        return [value for each, value in self._given if each == name]

    def text(self, name: str, otherwise: str | None = None) -> str | None:
        """The value, or what it is if it was not given."""
        return next(iter(self.texts(name)), otherwise)

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Whether it was switched on."""
        text = self.text(name)
        return otherwise if text is None else text == "true"

    def integer(self, name: str, otherwise: int) -> int:
        """The number."""
        text = self.text(name)
        return otherwise if text is None else int(text)
