# SPDX-License-Identifier: Apache-2.0
"""Texts as the C++ core takes them from Python."""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""Returns the text with "\udcff" in the place of a surrogate that stands alone, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
