# SPDX-License-Identifier: Apache-2.0
"""Objects that live, for leak tests and for stats(). Without locks: destructors come at any time."""

from __future__ import annotations

import itertools

callbacks: dict[int, str] = {}  # labels by id
sites: dict[int, None] = {}

_ids = itertools.count(1)


def new_id() -> int:
    """A number that nothing else ever has."""
    return next(_ids)


def label_of(callback_id: int) -> str:
    """The label of the live callback with this id, "" if there is none."""
    return callbacks.get(callback_id, "")
