# SPDX-License-Identifier: Apache-2.0
"""Prints and progress bars that a program carries as text, made by the package when the first record comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..delivery.record import Record
from ..text.value_print import parse
from .callback import Callback


class CarriedTap(Callback):
    """What `make` makes of the payload gets the records."""

    def __init__(self, label: str, payload: str, make: Callable[[str], Callback]):
        super().__init__(label)
        self._payload = payload
        self._make = make
        self._made: dict[None, Callback] = {}

    def deliver(self, record: Record) -> None:
        """Hands the record to the function, which is made when the first one comes."""
        made = self._made.get(None)
        if made is None:  # of threads that come first at once, all take what one of them made
            made = self._made.setdefault(None, self._make(self._payload))
            self.log_source = made.log_source
        made.deliver(record)


def make_print(label: str, payload: str) -> Callback:
    """Failure for a payload that is none."""
    parse(payload)

    def make(text: str) -> Callback:
        from callout._targets import print_target

        made: Any = print_target.carried_print(text)
        return cast("Callback", made)

    return CarriedTap(label, payload, make)


def make_bar(label: str, payload: str) -> Callback:
    """What is wrong with the payload is said when the first record comes."""

    def make(text: str) -> Callback:
        from callout.progress import _carried

        made: Any = _carried.carried_bar(text)
        return cast("Callback", made)

    return CarriedTap(label, payload, make)
