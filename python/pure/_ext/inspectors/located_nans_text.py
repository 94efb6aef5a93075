# SPDX-License-Identifier: Apache-2.0
"""What a program says of a line where NaN may begin, in 14 fields: see docs/abi.md."""

from __future__ import annotations

import dataclasses
from typing import NoReturn

from ..failures import INVALID_ARGUMENT, Failure
from ..text.percent import number_below, percent_decoded

_FIELDS = 14
_MOST_BYTES = 1 << 20
_MOST_OPERANDS = 1 << 14
_MOST_EXTENTS = 16


@dataclasses.dataclass(frozen=True)
class LocatedNansText:
    """Operands: the lanes that live, if any are told; results, one an operation; inputs; steps of the loops around."""

    fails: bool
    infinities: bool
    backward: bool
    order: int
    extents: int
    masks: list[int]
    live: int
    operations: list[str]
    inputs: int
    steps: int
    place: str
    expression: str
    module: str


def _malformed(what: str, found: str) -> NoReturn:
    raise Failure(
        INVALID_ARGUMENT,
        "callout: locate_nans must be "
        f"'1;warn;ni;forward;order;extents;masks;live;operations;inputs;steps;place;expression;module', {what}, got "
        f"'{found[:80]}'",
    )


def _decoded(text: str) -> str:
    decoded = percent_decoded(text)
    if decoded is None:
        _malformed("whose '%' stand before two digits", text)
    return decoded


def _word(text: str, words: tuple[str, str], what: str) -> bool:
    """Whether it is the first of two words."""
    if text not in words:
        _malformed(what, text)
    return text == words[0]


def _number(text: str, end: int, what: str) -> int:
    number = number_below(text, end)
    if number is None:
        _malformed(what, text)
    return number


def parse_located_nans(payload: str) -> LocatedNansText:
    """Failure, with what is wrong, for anything else: it may come from anywhere."""
    if len(payload.encode("utf-8", "surrogateescape")) > _MOST_BYTES:
        _malformed("of at most 1 MiB", payload)
    fields = payload.split(";")
    if len(fields) != _FIELDS:
        _malformed("with 14 fields", payload)
    if fields[0] != "1":
        _malformed("of the format 1", fields[0])
    fails = _word(fields[1], ("raise", "warn"), "with 'raise' or 'warn'")
    infinities = _word(fields[2], ("ni", "n"), "with 'n' or 'ni'")
    backward = _word(fields[3], ("backward", "forward"), "with 'forward' or 'backward'")
    order = _number(fields[4], 1 << 62, "with a number for its order")
    extents = _number(fields[5], _MOST_EXTENTS + 1, "with at most 16 extents")
    live = _number(fields[7], 2, "with 0 or 1 for the lanes that live")
    inputs = _number(fields[9], _MOST_OPERANDS, "with the number of its inputs")
    steps = _number(fields[10], _MOST_OPERANDS, "with the number of the loops around")
    operations = [_decoded(one) for one in fields[8].split(",")]
    masks = []
    for one in fields[6].split(","):
        mask = number_below(one, 1 << extents)
        if mask is None:
            _malformed(f"with masks of {extents} extents", fields[6])
        masks.append(mask)
    operands = live + len(operations) + inputs + steps
    if len(masks) != operands or operands > _MOST_OPERANDS:
        _malformed(f"with a mask for each of {operands} operands", fields[6])
    place, expression, module = map(_decoded, fields[11:])
    numbers = (order, extents, masks, live, operations, inputs, steps)
    return LocatedNansText(fails, infinities, backward, *numbers, place, expression, module)
