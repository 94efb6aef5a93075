# SPDX-License-Identifier: Apache-2.0
"""Callbacks that a program says in their name, "kind:payload", and what makes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from .callback import Callback

CHECK, LOCATED_NANS, PRINT, BAR, CLOCK, WATCH = "check", "nans", "id_print", "progress_bar", "progress_clock", "watch"

Maker = Callable[[str, str], Callback]  # of a label and a payload

# Where the maker of each is: looked up when it is needed, since callbacks are below their kinds.
_MAKERS = {
    CHECK: ("inspectors.check", "make_check"),
    LOCATED_NANS: ("inspectors.located_nans", "make_located_nans"),
    WATCH: ("inspectors.watch", "make_watch"),
    PRINT: ("calls.carried_tap", "make_print"),
    BAR: ("calls.carried_tap", "make_bar"),
    CLOCK: ("calls.progress_clock", "make_clock"),
}
_PACKAGE = __package__.rpartition(".")[0]


def make_for_program(name: str) -> Callback | None:
    """None for a name that is of no kind."""
    kind, colon, payload = name.partition(":")
    if not colon or kind not in _MAKERS:
        return None
    module, function = _MAKERS[kind]
    make: Maker = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)
    return make(kind, payload)
