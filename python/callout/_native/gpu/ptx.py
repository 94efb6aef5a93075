# SPDX-License-Identifier: Apache-2.0
"""What PTX needs from elsewhere."""

from __future__ import annotations

import re

_EXTERNAL = re.compile(r"\.extern\s+\.func\b(?:\s*\([^)]*\))?\s+([\w$.%]+)")
# What every driver links by itself.
_OF_THE_DRIVER = frozenset({"vprintf", "malloc", "free", "__assertfail"})


def missing_functions(ptx: str) -> set[str]:
    """Functions that it calls, and neither has nor finds in the driver: it is good only when linked with them."""
    return set(_EXTERNAL.findall(ptx)) - _OF_THE_DRIVER


def is_complete(ptx: str) -> bool:
    """True for one module of PTX that needs no other."""
    return ptx.count(".address_size") == 1 and not missing_functions(ptx)
