# SPDX-License-Identifier: Apache-2.0
"""Reads the code blocks of a Markdown page, each with the HTML comment on the line before it, its mark."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^(?:<!-- ([^\n]+) -->\n)?```([\w-]*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block. `line`: the page's line on which the code begins."""

    mark: str
    language: str
    code: str
    line: int


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text()
    for match in BLOCK.finditer(text):
        yield Block(match[1] or "", match[2], match[3], text.count("\n", 0, match.start(3)) + 1)
