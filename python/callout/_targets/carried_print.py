# SPDX-License-Identifier: Apache-2.0
"""Prints as text that a program carries, instead of a function: "id_print:" and a payload, which docs/abi.md describes."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _ext
from .._measuring import host_callback_additions as additions
from .target import Transforms

PREFIX = _ext.print_prefix
_FORMAT = 1
_KINDS = "tlb()"  # by the numbers of the core's numpy_text.h
_LITERAL = "()[]{}<>=:'/*+!?@#$&|^`"  # with letters, digits and "_.-~"

# Print options that change an array's text, with what they are if nobody sets them; but for the threshold.
DEFAULT_OPTIONS: dict[str, Any] = {
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "floatmode": "maxprec",
    "formatter": None,
    "legacy": False,
    "edgeitems": 3,
}


def emit(path: str, head: str, text: str, stream: Any) -> None:
    """Writes `head`, if it is not empty, and `text` to `stream`, or prints them. Counts the print. Thread-safe."""
    with additions.lock:
        additions.count(path)
        for line in (head, text) if head else (text,):
            if stream is None:
                print(line)  # noqa: T201 - that is what it is for
            else:
                stream.write(line + "\n")


def head_parts(kwargs: Mapping[str, Any], transforms: Transforms, with_device: bool) -> tuple[str, str | None]:
    """Returns the line above the value: all of it and None, or what comes before and after the device."""
    pairs: dict[str, Any] = dict(kwargs)
    if transforms:
        pairs["transforms"] = [(name, params) if params else name for name, params in transforms]
    if not with_device:
        return " ".join(f"{key}: {pairs[key]}" for key in sorted(pairs)), None
    before = " ".join([*(f"{key}: {pairs[key]}" for key in sorted(pairs) if key < "device"), "device: "])
    return before, "".join(f" {key}: {pairs[key]}" for key in sorted(pairs) if key > "device")


def encode(
    head: tuple[str, str | None], pieces: Sequence[tuple[int, str, int]], threshold: int, exponents_from: float
) -> str:
    """Returns the name of a print. UnicodeEncodeError for text that is not Unicode."""
    before, after = head
    line = [_text(before)] if before else []
    if after is not None:
        line += ["d", *([_text(after)] if after else [])]
    layout = []
    for kind, text, number in pieces:
        code = _KINDS[kind]
        layout.append(_text(text) if code == "t" else code if code in "()" else f"{code}{number}")
    return f"{PREFIX}{_FORMAT};{threshold};{int(exponents_from)};{','.join(line)};{','.join(layout)}"


def _text(text: str) -> str:
    return "t" + urllib.parse.quote(text, safe=_LITERAL)


class CarriedPrint:
    """Prints as the `Printer` did whose name a program carries."""

    def __init__(self, payload: str):
        self._before, self._after, pieces, self.num_leaves, self._threshold, self._exponents_from = (
            _ext.parse_value_print(payload)
        )
        self._layout = _ext.ValueLayout(pieces)

    @property
    def with_device(self) -> bool:
        return self._after is not None

    def __call__(self, leaves: tuple[np.ndarray, ...], _: Transforms, *, device: Any = None) -> None:
        if len(leaves) != self.num_leaves:
            raise ValueError(f"callout: an id_print of {self.num_leaves} arrays got {len(leaves)}")
        head = self._before if self._after is None else f"{self._before}{device}{self._after}"
        text = self._layout.text(leaves, self._threshold, self._exponents_from)
        path = "native" if text is not None else "numpy"
        emit(path, head, text if text is not None else self._numpy_text(leaves), None)

    def _numpy_text(self, leaves: Sequence[np.ndarray]) -> str:
        with np.printoptions(**DEFAULT_OPTIONS):
            return self._layout.join([np.array2string(leaf, threshold=self._threshold) for leaf in leaves])
