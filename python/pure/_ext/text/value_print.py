# SPDX-License-Identifier: Apache-2.0
"""Prints that programs carry as text: "1;threshold;exponents from;line above;layout", see docs/abi.md."""

from __future__ import annotations

import re
from typing import NoReturn

from ..failures import INVALID_ARGUMENT, Failure, as_error
from .percent import percent_decoded
from .value_layout import BREAK, CLOSE, LEAF, OPEN, TEXT

Piece = tuple[int, str, int]
Parsed = tuple[str, str | None, list[Piece], int, int, int]

_MOST_NUMBER = 2**63 - 1
_MOST_INDENT = 1 << 16
_MOST_DEPTH = 1 << 10
_MOST_PIECES = 1 << 18
_MOST_OWN_TEXT = 1 << 24  # what is printed around the values, with the spaces of its breaks
_SHOWN = 40


def _malformed(expected: str, got: str) -> NoReturn:
    shown = f"{got[:_SHOWN]}...'" if len(got) > _SHOWN else f"{got}'"
    raise Failure(
        INVALID_ARGUMENT,
        f"callout: cannot read the id_print that a program carries: expected {expected}, got '{shown}",
    )


def _number(text: str, least: int, most: int) -> int:
    if re.fullmatch(r"-?[0-9]{1,20}", text) and least <= int(text) <= most:
        return int(text)
    _malformed(f"a number from {least} to {most}", text)


def _text(text: str) -> str:
    if odd := re.search(r"[^!-~]", text):
        _malformed("printable ASCII", text[odd.start() :])
    decoded = percent_decoded(text)
    if decoded is None:
        at = re.search(r"%(?![0-9A-Fa-f]{2})", text)
        _malformed("two hexadecimal digits after each '%'", text[at.start() :] if at else text)
    return decoded


def _head(field: str) -> tuple[str, str | None]:
    before, after = "", None
    for token in field.split(",") if field else []:
        if token == "d" and after is None:
            after = ""
        elif not token.startswith("t"):
            _malformed("'t' and a text, or 'd' once, in the line above the value", token)
        elif after is None:
            before += _text(token[1:])
        else:
            after += _text(token[1:])
    return before, after


def _piece(token: str) -> Piece:
    if token in ("(", ")"):
        return (OPEN if token == "(" else CLOSE, "", 0)
    rest = token[1:]
    if token.startswith("t"):
        return (TEXT, _text(rest), 0)
    if token.startswith("l"):
        return (LEAF, "", _number(rest, 0, _MOST_NUMBER))
    if token.startswith("b"):
        return (BREAK, "", _number(rest, 0, _MOST_INDENT))
    _malformed("'(', ')', or 't', 'l' or 'b' and what it is of", token)


def _check(field: str, pieces: list[Piece]) -> int:
    """The number of leaves, of a layout whose groups close and whose leaves come once each."""
    own_text = sum(len(text.encode()) + (number if kind == BREAK else 0) for kind, text, number in pieces)
    if len(pieces) > _MOST_PIECES or own_text > _MOST_OWN_TEXT:
        _malformed(f"at most {_MOST_PIECES} pieces and {_MOST_OWN_TEXT} characters around the values", field)
    depth = 0
    for kind, _, _ in pieces:
        depth += (kind == OPEN) - (kind == CLOSE)
        if depth > _MOST_DEPTH:
            _malformed(f"at most {_MOST_DEPTH} groups inside each other", field)
        if depth < 0:
            _malformed("a '(' for each ')'", field)
    if depth > 0:
        _malformed("a ')' for each '('", field)
    numbers = [number for kind, _, number in pieces if kind == LEAF]
    if sorted(numbers) != list(range(len(numbers))):
        _malformed(f"the leaves 0 to {len(numbers) - 1} once each", field)
    return len(numbers)


def parse(payload: str) -> Parsed:
    """(head, what follows the device or None, pieces, number of leaves, threshold, exponents from)."""
    fields = payload.split(";")
    if fields[0] != "1":
        _malformed("format 1, which is what this version of Callout reads", payload)
    if len(fields) != 5:
        _malformed("5 fields separated by ';'", payload)
    threshold, exponents_from = _number(fields[1], -1, _MOST_NUMBER), _number(fields[2], 1, _MOST_NUMBER)
    before, after = _head(fields[3])
    pieces = [_piece(token) for token in fields[4].split(",")] if fields[4] else []
    return before, after, pieces, _check(fields[4], pieces), threshold, exponents_from


def parse_value_print(payload: str) -> Parsed:
    """What `parse` reads, for the package."""
    try:
        return parse(payload)
    except Failure as failure:
        raise as_error(failure.code, failure.text) from None
