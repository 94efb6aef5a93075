# SPDX-License-Identifier: Apache-2.0
"""What a program says of one of its checks: "1;raise;source;extents;operands;text", see docs/abi.md."""

from __future__ import annotations

import dataclasses
from typing import NoReturn

from ..failures import INVALID_ARGUMENT, Failure
from ..text.format_string import parse_format
from ..text.percent import number_below, percent_decoded

_MOST_TEXT = 1 << 16
_MOST_OPERANDS = 1 << 10
_MOST_EXTENTS = 16


@dataclasses.dataclass(frozen=True)
class Operand:
    """`mask`: which extents of the batch it has in front, the outermost being bit 0."""

    mask: int
    is_elementwise: bool


@dataclasses.dataclass(frozen=True)
class CheckText:
    """The predicate is the first of the operands."""

    fails: bool
    source: str
    extents: int
    operands: list[Operand]
    format: str


def _malformed(what: str, found: str) -> NoReturn:
    raise Failure(
        INVALID_ARGUMENT,
        f"callout: a check must be '1;raise;source;extents;operands;text', {what}, got '{found[:80]}'",
    )


def _operands(text: str, extents: int) -> list[Operand] | None:
    operands = []
    for one in text.split(","):
        mask = number_below(one.removesuffix("e"), 1 << extents)
        if mask is None:
            return None
        operands.append(Operand(mask, one.endswith("e")))
    return operands if len(operands) <= _MOST_OPERANDS else None


def parse_check(payload: str) -> CheckText:
    """Failure, with what is wrong, for anything else: it may come from anywhere."""
    fields = payload.split(";", 5)
    if len(fields) != 6:
        _malformed("with 6 fields", payload)
    version, what, source, extents_text, operands_text, text = fields
    if version != "1":
        _malformed("of the format 1", version)
    if what not in ("raise", "warn"):
        _malformed("with 'raise' or 'warn'", what)
    if len(text.encode()) > _MOST_TEXT:
        _malformed("with a text of at most 64 KiB", text)
    decoded = percent_decoded(source)
    if decoded is None or len(decoded) > _MOST_TEXT:
        _malformed("with a source whose '%' stand before two digits", source)
    extents = number_below(extents_text, _MOST_EXTENTS + 1)
    if extents is None:
        _malformed("with at most 16 extents", extents_text)
    operands = _operands(operands_text, extents)
    if operands is None:
        _malformed(f"with the operands' masks of {extents} extents", operands_text)
    parse_format(text)
    return CheckText(what == "raise", decoded, extents, operands, text)
