# SPDX-License-Identifier: Apache-2.0
"""`callout.locate_nans` traces a function, and evaluates it with inspections of the values that leave its lines."""

from __future__ import annotations

import re
import warnings

from ..._base.errors import NonFiniteWarning
from .transform import locate_nans as locate_nans

_PLACE = re.compile(r"(.*):(\d+)(?: in .*)?", re.DOTALL)


def warn(place: str, text: str) -> bool:
    """Warns of a finding at `place`, "file.py:12 in f". Returns False if warnings are errors. The core calls this."""
    match = _PLACE.fullmatch(place)
    file, line = (match[1], int(match[2])) if match else (place, 0)
    try:
        warnings.warn_explicit(text, NonFiniteWarning, file, line)
    except NonFiniteWarning:
        return False
    return True
