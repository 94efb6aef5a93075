# SPDX-License-Identifier: Apache-2.0
"""Reads the Python blocks of a page of the manual, for tests that run blocks which otherwise need a GPU."""

import re
from pathlib import Path

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """Returns the blocks of a page of docs/, in order."""
    return _BLOCK.findall((Path(__file__).parents[3] / "docs" / f"{page}.md").read_text())
