# SPDX-License-Identifier: Apache-2.0
"""What becomes of a report: a Python warning at the user's line."""

from __future__ import annotations

import re
import warnings

from ..._base.errors import NonFiniteWarning

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
