# SPDX-License-Identifier: Apache-2.0
"""`callout.locate_nans`: a function is traced, and evaluated again with inspections of what leaves its lines."""

from __future__ import annotations

import re
import warnings

from ..._base.errors import NonFiniteWarning
from .transform import locate_nans as locate_nans

_PLACE = re.compile(r"(.*):(\d+)(?: in .*)?", re.DOTALL)


def warn(place: str, text: str) -> bool:
    """Warns of what was found at `place`, "file.py:12 in f". False if warnings are errors. Called by the core."""
    match = _PLACE.fullmatch(place)
    file, line = (match[1], int(match[2])) if match else (place, 0)
    try:
        warnings.warn_explicit(text, NonFiniteWarning, file, line)
    except NonFiniteWarning:
        return False
    return True
