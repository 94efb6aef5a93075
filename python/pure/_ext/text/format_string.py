# SPDX-License-Identifier: Apache-2.0
"""Formats of records, as those of `str.format`: the fields and the texts between them."""

from __future__ import annotations

import dataclasses
import re
from typing import NoReturn

from ..failures import INVALID_ARGUMENT, Failure

_MOST = 4096  # of widths and digits: nobody reads more, and a record must not fill the memory
_TIME = re.compile(r"%[A-Za-z]")


@dataclasses.dataclass(frozen=True)
class Field:
    """`name` has "[x]" as ".x". `as_text`: its text is formatted, "!s"."""

    name: str
    spec: str
    as_text: bool
    position: int

    @property
    def is_time(self) -> bool:
        """Whether the specification is one of strftime."""
        return _TIME.search(self.spec) is not None


def fail_at(text: str, position: int, what: str) -> NoReturn:
    """Failure with the place."""
    raise Failure(INVALID_ARGUMENT, f"callout: cannot print with the format '{text}', at character {position}: {what}")


class _Parser:
    def __init__(self, text: str):
        self._text = text
        self._at = 0
        self._next_number = 0
        self._is_automatic = self._is_manual = False

    def parse(self) -> list[str | Field]:
        text, pieces = self._text, list[str | Field]()
        while self._at < len(text):
            c = text[self._at]
            if c not in "{}":
                end = re.compile(r"[{}]|$").search(text, self._at)
                assert end is not None
                pieces.append(text[self._at : end.start()])
                self._at = end.start()
            elif text[self._at + 1 : self._at + 2] == c:
                pieces.append(c)
                self._at += 2
            elif c == "}":
                self._fail(self._at, "a single '}'; write '}}' to print one")
            else:
                pieces.append(self._field())
        return pieces

    def _fail(self, position: int, what: str) -> NoReturn:
        fail_at(self._text, position, what)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _field(self) -> Field:
        begin = self._at
        self._at += 1
        name = self._name(begin)
        as_text = self._peek() == "!"
        if as_text:
            if self._text[self._at : self._at + 2] != "!s":
                self._fail(self._at, "only the conversion '!s' is known")
            self._at += 2
        spec = self._spec() if self._peek() == ":" else ""
        if self._at == len(self._text):
            self._fail(begin, "a '{' without its '}'; write '{{' to print one")
        if self._peek() != "}":
            self._fail(self._at, "expected ':' or '}' behind a conversion")
        self._at += 1
        return Field(name, spec, as_text, begin)

    def _name(self, begin: int) -> str:
        name, in_brackets = "", False
        while self._at < len(self._text):
            c = self._peek()
            if in_brackets and c == "]":
                in_brackets = False
            elif not in_brackets and c == "[":
                in_brackets = True
                name += "."
            elif not in_brackets and c in "}:!":
                break
            elif c == "{":
                self._fail(self._at, "a '{' inside of a field")
            else:
                name += c
            self._at += 1
        if in_brackets:
            self._fail(begin, "a '[' without its ']'")
        if not name:
            name = str(self._next_number)
            self._next_number += 1
            self._is_automatic = True
        elif re.fullmatch("[0-9]+", name):
            self._is_manual = True
        if self._is_automatic and self._is_manual:
            self._fail(begin, "'{}' and numbered fields do not go together")
        return name

    def _spec(self) -> str:
        begin = self._at + 1
        end = re.compile(r"[{}]|$").search(self._text, begin)
        assert end is not None
        self._at = end.start()
        if self._peek() == "{":
            self._fail(self._at, "fields inside of a specification are not known")
        spec = self._text[begin : self._at]
        if not _TIME.search(spec):
            self._check_spec(spec, begin)
        return spec

    def _check_spec(self, spec: str, begin: int) -> None:
        """What no value takes, and what would fill the memory."""
        if any(len(digits) > 5 or int(digits) > _MOST for digits in re.findall("[0-9]+", spec)):
            self._fail(begin, f"Too many decimal digits in format string: at most {_MOST} '{spec}'")
        match = re.fullmatch(r"(?:.?[<>=^])?[+\- ]?z?#?0?[0-9]*(.*)", spec, re.DOTALL)
        rest = match[1] if match else spec
        if twice := re.match(r"([,_])([,_])", rest):
            both = f"Cannot specify '{twice[1]}' twice." if twice[1] == twice[2] else "Cannot specify both ',' and '_'."
            self._fail(begin, f"{both} '{spec}'")
        grouping, rest = (rest[0], rest[1:]) if rest[:1] in (",", "_") else ("", rest)
        if rest.startswith(".") and not re.match(r"\.[0-9]", rest):
            self._fail(begin, f"Format specifier missing precision '{spec}'")
        kind = re.sub(r"^\.[0-9]+", "", rest)
        if len(kind) > 1:
            self._fail(begin, f"Invalid format specifier '{spec}'")
        if grouping and kind and kind not in ("deEfFgG%" if grouping == "," else "deEfFgG%boxX"):
            self._fail(begin, f"Cannot specify '{grouping}' with '{kind}'. '{spec}'")


def parse_format(text: str) -> list[str | Field]:
    """Texts and fields in turn. Failure for a malformed one, with the place."""
    return _Parser(text).parse()
