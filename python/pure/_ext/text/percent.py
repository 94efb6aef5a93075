# SPDX-License-Identifier: Apache-2.0
"""Fields of what programs say, in which "%41" stands for a character."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"%(.{0,2})", re.DOTALL)


def percent_decoded(text: str) -> str | None:
    """None where a '%' does not stand before two hexadecimal digits."""

    def byte(match: re.Match[bytes]) -> bytes:
        if not re.fullmatch(rb"[0-9A-Fa-f]{2}", match[1]):
            raise ValueError
        return bytes([int(match[1], 16)])

    try:
        return _ESCAPE.sub(byte, text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
    except ValueError:
        return None


def number_below(text: str, end: int) -> int | None:
    """A number of digits alone, less than `end`."""
    if not re.fullmatch(r"[0-9]{1,20}", text):
        return None
    number = int(text)
    return number if number < end else None
