# SPDX-License-Identifier: Apache-2.0
"""What the pure-Python wheel says of what it does not have."""

from __future__ import annotations

from typing import NoReturn

REASON = "this is the pure-Python wheel of callout (py3-none-any), which has no C++ core"


def refuse(what: str, instead: str) -> NoReturn:
    """Raises NotImplementedError. `what` was asked for; `instead` would work."""
    raise NotImplementedError(f"callout: {what}: {REASON}. {instead}; docs/fallback.md has the list")


CORE = "A wheel with the core, for CPython on Linux x86-64, has it"
PYTHON_FUNCTION = "callout.pure_callback and callout.io_callback of a Python function work here; " + CORE.lower()
